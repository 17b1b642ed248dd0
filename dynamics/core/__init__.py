"""What every simulator rests on: lowering, streams, files, trajectories."""
