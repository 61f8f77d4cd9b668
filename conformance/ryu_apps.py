#!/usr/bin/env python3
"""Runs applications of Ryu 4.34 on os-ken, its successor, which ships without them.

    conformance/ryu_apps.py simple_switch_13               # a learning switch
    conformance/ryu_apps.py ofctl_rest [--rest PORT]       # flows by HTTP, port 8080

Their sources come from PyPI once, into target/conformance/ryu; the package's name in them is changed, and nothing else. They listen for switches on
127.0.0.1:6653 (`--listen ADDRESS:PORT`).
"""

import argparse
import os
import subprocess
import sys
import tarfile

import osken

RYU = "4.34"
APPS = ["simple_switch_13", "ofctl_rest"]
FOLDER = os.path.join(osken.ROOT, "target", "conformance", "ryu")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("app", choices=APPS)
    parser.add_argument("--listen", default="127.0.0.1:6653", metavar="ADDRESS:PORT")
    parser.add_argument("--rest", default="8080", metavar="PORT")
    parser.add_argument("--install", action="store_true", help="only make what is needed")
    options = parser.parse_args()
    try:
        import os_ken  # noqa: F401
    except ImportError:
        python, why = osken.find()
        if not python:
            sys.exit(why)
        os.execv(python, [python, *sys.argv])
    install()
    if not options.install:
        run(options)


def install():
    """Fetches the applications, and what they need beside os-ken."""
    if all(os.path.exists(os.path.join(FOLDER, "ryu_app", f"{app}.py")) for app in [*APPS, "wsgi"]):
        return
    maker = os.path.join(FOLDER, "venv")
    os.makedirs(os.path.join(FOLDER, "ryu_app"), exist_ok=True)
    pip = [os.path.join(maker, "bin", "python"), "-m", "pip", "--quiet", "--disable-pip-version-check"]
    # Its build script is older than today's setuptools.
    subprocess.run([sys.executable, "-m", "venv", maker], check=True)
    subprocess.run([*pip, "install", "setuptools<58", "pbr", "wheel"], check=True)
    subprocess.run([*pip, "download", "--no-deps", "--no-build-isolation", f"ryu=={RYU}"], check=True, cwd=FOLDER)
    subprocess.run([sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check", "install", "tinyrpc"], check=True)
    with tarfile.open(os.path.join(FOLDER, f"ryu-{RYU}.tar.gz")) as archive:
        for app in [*APPS, "wsgi"]:
            source = archive.extractfile(f"ryu-{RYU}/ryu/app/{app}.py").read().decode()
            source = source.replace("from ryu.app.", "from ryu_app.").replace("from ryu.", "from os_ken.").replace("from ryu import", "from os_ken import")
            source = source.replace("RyuException", "OSKenException").replace("RyuApp", "OSKenApp")
            with open(os.path.join(FOLDER, "ryu_app", f"{app}.py"), "w", encoding="utf-8") as out:
                out.write(source)


def run(options):
    os.environ.setdefault("OSKEN_HUB_TYPE", "eventlet")
    from os_ken.lib import hub

    hub.patch(thread=False)
    import os_ken.log  # noqa: F401
    from os_ken import cfg
    from os_ken.base.app_manager import AppManager
    import os_ken.controller.controller  # noqa: F401

    sys.path.insert(0, FOLDER)
    host, port = options.listen.rsplit(":", 1)
    words = ["--ofp-listen-host", host, "--ofp-tcp-listen-port", port]
    if options.app == "ofctl_rest":
        import eventlet.wsgi

        # A name that eventlet had then; Ryu uses it for web sockets, which this application has not.
        eventlet.wsgi.ALREADY_HANDLED = object()
        import ryu_app.wsgi  # noqa: F401  registers where it listens

        words += ["--wsapi-host", "127.0.0.1", "--wsapi-port", options.rest]
    cfg.CONF(args=words, project="os_ken", default_config_files=[])
    manager = AppManager.get_instance()
    manager.load_apps([f"ryu_app.{options.app}", "os_ken.controller.ofp_handler"])
    services = manager.instantiate_apps(**manager.create_contexts())
    if options.app == "ofctl_rest":
        services.append(hub.spawn(ryu_app.wsgi.start_service(manager)))
    try:
        hub.joinall(services)
    except KeyboardInterrupt:
        pass
    finally:
        manager.close()


if __name__ == "__main__":
    main()
