"""Folders of finished results: made to be killed, shared and resumed."""
