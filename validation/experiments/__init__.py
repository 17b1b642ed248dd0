"""What several claims measure."""
