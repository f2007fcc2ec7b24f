"""File systems that the measurements in this folder compare: Weir, its peers, and servers without a storage engine."""
import os, shutil, subprocess, tempfile, time

IMAGE_BYTES = 4 << 30
HERE = os.path.dirname(os.path.abspath(__file__))
WEIR = os.environ.get("WEIR", os.path.join(HERE, "../target/release/weir"))
MEMORY = os.environ.get("MEMORY_SERVER", os.path.join(os.path.dirname(WEIR), "examples/memory"))
POOL = os.environ.get("POOL_SERVER", os.path.join(os.path.dirname(WEIR), "examples/pool"))
ZFS_FUSE = os.path.join(os.environ.get("ZFS_FUSE", "/usr"), "sbin")


def sh(*args, check=True, **more):
    done = subprocess.run(args, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, **more)
    if check and done.returncode:
        raise RuntimeError(f"{' '.join(args)}: {done.stdout.strip()[-500:]}")
    return done.stdout


class Peer:
    """A file system on an image in `base`, at the directory `dir`."""

    def __init__(self, base):
        self.base, self.image, self.dir = base, os.path.join(base, "image", "d0"), os.path.join(base, "mount")

    def make(self):
        os.makedirs(os.path.dirname(self.image))
        os.makedirs(self.dir)
        with open(self.image, "wb") as f:
            f.truncate(IMAGE_BYTES)

    def again(self):
        """Nothing is cached above the image."""
        self.unmount()
        self.mount()

    def remove(self):
        shutil.rmtree(self.base)


class Loop(Peer):
    mkfs, options = [], "loop"

    @classmethod
    def missing(cls):
        return None if shutil.which(cls.mkfs[0]) else f"no {cls.mkfs[0]}"

    def make(self):
        super().make()
        sh(*self.mkfs, self.image)
        self.mount()

    def mount(self):
        sh("mount", "-o", self.options, self.image, self.dir)

    def unmount(self):
        sh("umount", self.dir)


class Ext4(Loop):
    name, mkfs = "ext4", ["mkfs.ext4", "-q", "-F"]


class Xfs(Loop):
    name, mkfs = "xfs", ["mkfs.xfs", "-q", "-f"]


class Btrfs(Loop):
    name, mkfs, options = "btrfs+zstd", ["mkfs.btrfs", "-q", "-f"], "loop,compress=zstd"


class ZfsFuse(Peer):
    name = "zfs-fuse"

    @classmethod
    def missing(cls):
        return None if os.access(f"{ZFS_FUSE}/zfs-fuse", os.X_OK) else "no zfs-fuse: set ZFS_FUSE (apt-get download zfs-fuse; dpkg -x)"

    def make(self):
        super().make()
        self.daemon = subprocess.Popen([f"{ZFS_FUSE}/zfs-fuse", "--no-daemon", "--no-kstat-mount"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        time.sleep(2)
        sh(f"{ZFS_FUSE}/zpool", "create", "-m", self.dir, "weirbench", self.image)
        for setting in ("compression=on", "atime=off"):
            sh(f"{ZFS_FUSE}/zfs", "set", setting, "weirbench")

    def mount(self):
        sh(f"{ZFS_FUSE}/zpool", "import", "-d", os.path.dirname(self.image), "weirbench")

    def unmount(self):
        sh(f"{ZFS_FUSE}/zpool", "export", "weirbench")

    def remove(self):
        if hasattr(self, "daemon"):
            self.daemon.terminate()
            self.daemon.wait()
        super().remove()


class Server(Peer):
    """A server without an image: its files and its cache exist while it is mounted."""

    def command(self):
        raise NotImplementedError

    def make(self):
        os.makedirs(self.dir)
        self.mount()

    def mount(self):
        self.process = subprocess.Popen(self.command(), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        for _ in range(100):
            if os.path.ismount(self.dir):
                return
            time.sleep(0.1)
        raise RuntimeError(f"{self.name} did not mount")

    def again(self):
        with open("/proc/sys/vm/drop_caches", "w") as f:
            f.write("1")

    def unmount(self):
        sh("umount", self.dir)
        self.process.wait()


class Weir(Server):
    """The storage engine and the server of a mount, without the commands around them."""
    name, options = "weir", []

    @classmethod
    def missing(cls):
        return None if os.access(POOL, os.X_OK) else f"no {POOL}"

    def command(self):
        return [POOL, self.image, self.dir, "compression=lz4", "atime=off", *self.options]

    def make(self):
        Peer.make(self)
        self.mount()

    def again(self):
        self.unmount()
        self.mount()


class WeirBack(Weir):
    name, options = "weir-write-back", ["write-back"]


class WeirUring(Weir):
    name, options = "weir uring", ["write-back", "uring"]


class Memory(Server):
    name, options = "server alone", []

    @classmethod
    def missing(cls):
        return None if os.access(MEMORY, os.X_OK) else f"no {MEMORY}"

    def command(self):
        return [MEMORY, self.dir, *self.options]


class Passthrough(Server):
    name, program = "passthrough_ll", None

    @classmethod
    def missing(cls):
        source = "/usr/share/doc/libfuse3-dev/examples/passthrough_ll.c"
        if not os.path.exists(source) or not shutil.which("cc"):
            return "no libfuse3-dev with its examples, or no compiler"
        cls.program = os.path.join(tempfile.mkdtemp(), "passthrough_ll")
        flags = sh("pkg-config", "--cflags", "--libs", "fuse3").split()
        sh("cc", "-O2", "-w", "-DFUSE_USE_VERSION=312", "-o", cls.program, source, *flags)
        return None

    def command(self):
        source = os.path.join(self.base, "source")
        os.makedirs(source)
        return [self.program, "-f", "-o", f"source={source},cache=always,timeout=86400,allow_other", self.dir]
