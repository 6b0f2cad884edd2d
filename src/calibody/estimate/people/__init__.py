"""Motion capture: markers, plates, segments."""
