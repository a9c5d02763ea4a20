"""Pictures of curves, drawn with matplotlib and without a display."""
