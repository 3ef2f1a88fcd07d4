"""What people look at: tables for the terminal, pictures, and one self-contained page."""
