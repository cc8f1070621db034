"""A guest: a virtual machine of QEMU's that boots Debian's stock kernel and runs one command of this host's.

For what this host's kernel or hardware lacks, such as several memory nodes.  Processors are emulated, so nothing is
asked of the host (no KVM); they are 10 to 30 times slower and lack AVX-512.  The guest sees this host's files read-only
and has /proc, /sys, /dev, an empty /run and loopback of its own.  It has no disk, and no network to anywhere.

    guest.py prepare FOLDER          the kernel and a first file system, into FOLDER (once: 71 MB to fetch, 11 MB kept)
    guest.py run FOLDER COMMAND...   runs it on two processors and two memory nodes; the command's output and status

`prepare` needs apt-get, dpkg and the packages cpio and busybox-static; `run` needs qemu-system-x86.
"""
import pathlib
import re
import shlex
import shutil
import subprocess
import sys
import tempfile

BUSYBOX = "/bin/busybox"
QEMU = "qemu-system-x86_64"
MODULES = ("virtio_pci", "9pnet_virtio", "9p")  # what the files of the host come through; with what these depend on
SIGNATURE = b"~Module signature appended~\n"

# The first process.  The second serial line is the command's output, the third its status.
INIT = r"""#!/bin/busybox sh
B=/bin/busybox
$B mount -t proc proc /proc; $B mount -t sysfs sys /sys; $B mount -t devtmpfs dev /dev
stop() { $B sync; echo o >/proc/sysrq-trigger; $B sleep 60; }
for module in $($B cat /modules/order); do $B insmod /modules/$module || { echo "insmod $module failed"; stop; }; done
$B mount -t 9p -o ro,cache=loose,trans=virtio,version=9p2000.L,msize=512000 host /host || { echo "no host"; stop; }
for folder in proc sys dev; do $B mount --move /$folder /host/$folder; done
$B mkdir -p /host/dev/shm; $B mount -t tmpfs tmpfs /host/dev/shm; $B mount -t tmpfs tmpfs /host/run
$B ip link set lo up
for port in 1 2; do $B stty -F /host/dev/ttyS$port raw -echo; done
for word in $($B cat /host/proc/cmdline); do case $word in script=*) script=${word#script=};; esac; done
$B chroot /host /bin/bash "$script" </host/dev/null >/host/dev/ttyS1 2>&1
echo $? >/host/dev/ttyS2
echo o >/host/proc/sysrq-trigger; $B sleep 60
"""


class Missing(Exception):
    """What a guest needs and this machine lacks, as a sentence."""


def image(folder):
    """The kernel and the first file system in the folder.  Throws Missing."""
    files = [pathlib.Path(folder) / name for name in ("vmlinuz", "initramfs")]
    if shutil.which(QEMU) is None:
        raise Missing(f"there is no {QEMU} (Debian: qemu-system-x86)")
    for file in files:
        if not file.is_file():
            raise Missing(f"there is no {file} (tools/dev test makes it)")
    return files


def output_of(*command, cwd=None):
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd=cwd, text=True)
    if done.returncode != 0:
        raise Missing(f"{shlex.join(command)} failed: {(done.stderr or done.stdout).strip()}")
    return done.stdout


def unpacked_kernel(folder):
    """Fetches the kernel's package and unpacks it into the folder; installs nothing."""
    depends = output_of("apt-cache", "depends", "linux-image-amd64")
    package = re.search(r"Depends: (linux-image-\S+)", depends)
    if package is None:
        raise Missing("apt-cache knows no linux-image-amd64")
    output_of("apt-get", "-q", "-o", "APT::Sandbox::User=root", "download", package[1], cwd=folder)
    output_of("dpkg", "-x", str(next(folder.glob("*.deb"))), str(folder))
    return next(folder.glob("boot/vmlinuz-*"))


def modules_in_order(folder, names):
    """The files of the modules, each behind those that it depends on."""
    files = {file.stem.replace("-", "_"): file for file in folder.rglob("*.ko")}
    order = []

    def add(name):
        file = files[name.replace("-", "_")]
        if file in order:
            return
        depends = re.search(rb"\0depends=([^\0]*)\0", file.read_bytes())
        for other in filter(None, depends[1].decode().split(",") if depends else []):
            add(other)
        order.append(file)

    for name in names:
        add(name)
    return order


def unsigned(module):
    """A module without its signature, which an emulated processor would take long to check."""
    if not module.endswith(SIGNATURE):
        return module
    end = len(module) - len(SIGNATURE)
    return module[:end - 12 - int.from_bytes(module[end - 4:end], "big")]


def prepare(folder):
    """Makes kernel and first file system, unless they are there.  Throws Missing."""
    folder = pathlib.Path(folder).absolute()
    kernel, initramfs = folder / "vmlinuz", folder / "initramfs"
    if kernel.is_file() and initramfs.is_file():
        return
    folder.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder) as work:
        work = pathlib.Path(work)
        package, root = work / "package", work / "root"
        for made in (package, *(root / name for name in ("bin", "modules", "proc", "sys", "dev", "host"))):
            made.mkdir(parents=True)
        found = unpacked_kernel(package)
        order = modules_in_order(package, MODULES)
        for file in order:
            (root / "modules" / file.name).write_bytes(unsigned(file.read_bytes()))
        (root / "modules" / "order").write_text("\n".join(file.name for file in order) + "\n")
        shutil.copy(BUSYBOX, root / "bin" / "busybox")
        (root / "init").write_text(INIT)
        (root / "init").chmod(0o755)
        output_of("sh", "-c", f"find . | cpio -o -H newc --quiet >{shlex.quote(str(work / 'initramfs'))}", cwd=root)
        (work / "initramfs").rename(initramfs)
        found.rename(kernel)  # last: with it the folder is ready


def machine(kernel, initramfs, script, lines, nodes, megabytes):
    """QEMU's command line: a processor and so much memory a node; files of serial lines: kernel, output, status."""
    memory = []
    for node in range(nodes):
        memory += ["-object", f"memory-backend-ram,id=memory{node},size={megabytes}M",
                   "-numa", f"node,nodeid={node},cpus={node},memdev=memory{node}"]
    serial = [word for line in lines for word in ("-serial", f"file:{line}")]
    arguments = ("console=ttyS0 loglevel=4 panic=-1 oops=panic mitigations=off audit=0 no_timer_check tsc=reliable "
                 f"rcupdate.rcu_expedited=1 script={script}")
    return [QEMU, "-M", "pc", "-accel", "tcg,thread=multi", "-cpu", "max", "-m", f"{nodes * megabytes}M",
            "-smp", str(nodes), *memory, "-nodefaults", "-no-user-config", "-display", "none", "-no-reboot", *serial,
            "-kernel", str(kernel), "-initrd", str(initramfs), "-append", arguments,
            "-fsdev", "local,id=host,path=/,security_model=none,readonly=on,multidevs=remap",
            "-device", "virtio-9p-pci,fsdev=host,mount_tag=host"]


def run(folder, command, environment=None, nodes=2, megabytes=384, timeout_s=110):
    """Runs the command in a guest of so many memory nodes, with a processor and so much memory each.  Its status and
    its output.  Throws Missing, or RuntimeError with the kernel's last words if the guest did not come to an end."""
    kernel, initramfs = image(folder)
    with tempfile.TemporaryDirectory(prefix="rondo-guest-") as work:
        lines = [f"{work}/{name}" for name in ("kernel", "output", "status")]
        script = pathlib.Path(work) / "script"
        exports = "".join(f"export {name}={shlex.quote(value)}\n" for name, value in (environment or {}).items())
        script.write_text(f"export HOME=/run TMPDIR=/run PATH=/usr/bin:/bin\ncd /run\n{exports}"
                          f"{shlex.join(command)}\n")
        why = ""
        try:
            done = subprocess.run(machine(kernel, initramfs, script, lines, nodes, megabytes), timeout=timeout_s,
                                  stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
            why = f"QEMU ended with status {done.returncode}: {done.stdout.strip()}"
        except subprocess.TimeoutExpired:
            why = f"it took more than {timeout_s} s"
        said, output, status = (pathlib.Path(line).read_text(errors="replace") if pathlib.Path(line).exists() else ""
                                for line in lines)
        if not status.strip().isdigit():
            raise RuntimeError(f"the guest gave no status; {why}\n{output}\n" + "\n".join(said.splitlines()[-30:]))
        return int(status), output


def main(arguments):
    if len(arguments) == 2 and arguments[0] == "prepare":
        prepare(arguments[1])
        return 0
    if len(arguments) > 2 and arguments[0] == "run":
        status, output = run(arguments[1], arguments[2:])
        sys.stdout.write(output)
        return status
    print(__doc__, file=sys.stderr)
    return 2


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:]))
    except Missing as missing:
        print(f"guest.py: {missing}", file=sys.stderr)
        sys.exit(77)
