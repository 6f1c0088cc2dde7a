"""Installs, removes or looks for the add-on inside a Blender that was started for it.

Runs in Blender's own Python (3.4 to 5.x): ``blender -b --python blender_setup.py -- ACTION ANSWER [ZIP]``.
What belongs here: calls of Blender's operators; the answer goes into a JSON file, since Blender prints what
it likes.  What must not: looking for Blenders and making zips (``farm plugin`` does).
"""

import json
import os
import sys
import traceback

import bpy

NAME = "overcrank"


def has_extensions():
    """Whether this Blender knows extensions (4.2 and later)."""
    return bpy.app.version >= (4, 2, 0) and hasattr(bpy.ops, "extensions")


def local_repository():
    """The index and module of the first repository of the user's own files."""
    for index, repository in enumerate(bpy.context.preferences.extensions.repos):
        if (
            not repository.use_remote_url
            and repository.enabled
            and getattr(repository, "source", "USER") == "USER"
        ):
            return index, repository.module
    raise RuntimeError(
        "this Blender has no repository for extensions from files (Preferences > Get Extensions)"
    )


def extension_modules():
    """Names under which the extension is enabled or installed."""
    if not has_extensions():
        return []
    found = []
    for repository in bpy.context.preferences.extensions.repos:
        name = "bl_ext.%s.%s" % (repository.module, NAME)
        if name in bpy.context.preferences.addons or os.path.isdir(os.path.join(repository.directory, NAME)):
            found.append(name)
    return found


def legacy_folder():
    """Folder of the legacy add-on, "" when it is not installed."""
    for folder in bpy.utils.script_paths(subdir="addons"):
        path = os.path.join(folder, NAME)
        if os.path.isfile(os.path.join(path, "__init__.py")):
            return path
    return ""


def version_in(folder):
    """The version the installed add-on says it has."""
    try:
        with open(os.path.join(folder, "__init__.py"), encoding="utf-8") as stream:
            for line in stream:
                if line.strip().startswith('"version"'):
                    return ".".join(line.partition("(")[2].partition(")")[0].replace(" ", "").split(","))
    except OSError:
        pass
    return ""


def look():
    """What is installed: (form, version, module, whether it is enabled)."""
    addons = bpy.context.preferences.addons
    for module in extension_modules():
        for repository in bpy.context.preferences.extensions.repos:
            if module == "bl_ext.%s.%s" % (repository.module, NAME):
                folder = os.path.join(repository.directory, NAME)
                return "extension", version_in(folder), module, module in addons
    folder = legacy_folder()
    if folder:
        return "add-on", version_in(folder), NAME, NAME in addons
    return "", "", "", False


def install(path, form):
    """Installs the zip and enables it."""
    if form == "extension":
        if legacy_folder():
            remove_legacy()  # The older form would show every panel twice.
        _, repository = local_repository()
        bpy.ops.extensions.package_install_files(
            filepath=path, repo=repository, enable_on_install=True, overwrite=True
        )
        module = "bl_ext.%s.%s" % (repository, NAME)
    else:
        bpy.ops.preferences.addon_install(filepath=path, overwrite=True)
        module = NAME
    if module not in bpy.context.preferences.addons:
        bpy.ops.preferences.addon_enable(module=module)
    if module not in bpy.context.preferences.addons or not hasattr(bpy.types, "OVERCRANK_OT_submit"):
        raise RuntimeError("it was installed but cannot be enabled")
    bpy.ops.wm.save_userpref()


def remove():
    """Removes every form of it."""
    for module in extension_modules():
        for index, repository in enumerate(bpy.context.preferences.extensions.repos):
            if module == "bl_ext.%s.%s" % (repository.module, NAME):
                if module in bpy.context.preferences.addons:
                    bpy.ops.preferences.addon_disable(module=module)
                bpy.ops.extensions.package_uninstall(repo_index=index, pkg_id=NAME)
    if legacy_folder():
        remove_legacy()
    bpy.ops.wm.save_userpref()


def remove_legacy():
    """Removes the legacy add-on."""
    if NAME in bpy.context.preferences.addons:
        bpy.ops.preferences.addon_disable(module=NAME)
    import shutil

    # The operator wants a preferences window, which there is none of here.
    shutil.rmtree(legacy_folder())


def main(action, path):
    """Does it; returns the answer."""
    form = "extension" if has_extensions() else "add-on"
    if action == "install":
        install(path, form)
    elif action == "remove":
        remove()
    found, version, module, enabled = look()
    return {
        "blender": ".".join(str(part) for part in bpy.app.version[:3]),
        "form": found,
        "version": version,
        "module": module,
        "enabled": enabled,
        "wants": form,
    }


def run():
    """Entry."""
    words = sys.argv[sys.argv.index("--") + 1 :]
    try:
        answer = main(words[0], words[2] if len(words) > 2 else "")
    except Exception as error:
        traceback.print_exc()
        answer = {"error": " ".join(str(error).split())}
    with open(words[1] + ".part", "w", encoding="ascii") as stream:
        json.dump(answer, stream)
    os.replace(words[1] + ".part", words[1])


run()
