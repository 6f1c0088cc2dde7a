"""The window round the views: docks, workspaces, menus, top bar, status line, toasts, banners.

What belongs here: everything of the window that is no view.  What may not: what any one view shows.
"""
