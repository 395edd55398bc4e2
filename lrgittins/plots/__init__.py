"""Pictures of results, one kind a module; matplotlib is imported when one is drawn."""
