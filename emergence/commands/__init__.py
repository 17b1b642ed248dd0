"""One file per subcommand: ``run(arguments) -> Result``. Heavy imports happen when a command is chosen, not before."""
