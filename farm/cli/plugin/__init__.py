"""What `farm plugin` does: finding the plug-ins' sources, packing them, and putting them into programs."""
