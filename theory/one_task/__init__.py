"""One direction learned alone: times, hitting laws, step sizes."""
