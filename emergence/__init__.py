"""The front door: command line, problem configuration, files written. Thin; the science is in the other packages."""
