"""Shared by the measurements in this folder: a pool on images, its server, and the output format."""
import os, shutil, statistics, subprocess, time

HERE = os.path.dirname(os.path.abspath(__file__))
WEIR = os.path.abspath(os.environ.get("WEIR", os.path.join(HERE, "../target/release/weir")))
RUNS = int(os.environ.get("RUNS", 5))


def machine():
    """Describes the machine in one line."""
    cpu = next((l.split(":")[1].strip() for l in open("/proc/cpuinfo") if l.startswith("model name")), "?")
    return f"{os.cpu_count()} cores, {cpu}, Linux {os.uname().release}, load {os.getloadavg()[0]:.2f}"


class Rig:
    """Images for a pool `tank`, a state folder, and optionally a server for both."""

    def __init__(self, base, *image_bytes):
        self.base, self.mount = base, os.path.join(base, "mount")
        self.images = [os.path.join(base, f"d{i}") for i in range(len(image_bytes))]
        self.environment = {**os.environ, "WEIR_STATE": os.path.join(base, "state")}
        self.server = None
        os.makedirs(self.mount)
        os.makedirs(self.environment["WEIR_STATE"])
        for image, size in zip(self.images, image_bytes):
            with open(image, "wb") as f:
                f.truncate(size)

    def weir(self, *args, **more):
        done = subprocess.run([WEIR, *args], env=self.environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, **more)
        if done.returncode:
            raise RuntimeError(f"weir {' '.join(args)[:200]}: {done.stdout.strip()[-500:]}")
        return done.stdout

    def timed(self, *args, shell=None):
        start = time.perf_counter()
        if shell:
            subprocess.run(["bash", "-o", "pipefail", "-c", shell], env={**self.environment, "WEIR": WEIR}, check=True, stdout=subprocess.DEVNULL)
        else:
            self.weir(*args)
        return time.perf_counter() - start

    def serve(self, *words):
        config = os.path.join(self.base, "weir.toml")
        with open(config, "w") as f:
            f.write('mount = true\n[nfs]\nlisten = []\n[api]\nlisten = []\n')
        log = open(os.path.join(self.base, "log"), "w")
        self.server = subprocess.Popen([WEIR, "serve", "--config", config, *words], env=self.environment, stdout=log, stderr=log)
        for _ in range(600):
            if os.path.exists(os.path.join(self.environment["WEIR_STATE"], "run/weir.sock")):
                return
            time.sleep(0.1)
        raise RuntimeError(open(os.path.join(self.base, "log")).read()[-500:])

    def stop(self):
        if self.server and self.server.poll() is None:
            self.server.terminate()
            self.server.wait(120)
        self.server = None

    def remove(self):
        self.stop()
        subprocess.run(["umount", "-R", "-l", self.mount], stderr=subprocess.DEVNULL)
        shutil.rmtree(self.base, ignore_errors=True)


def show(what, times, unit="ms", scale=1000, goal=""):
    values = sorted(t * scale for t in times)
    print(f"{what:60}{statistics.median(values):>10,.1f} {unit} ({values[0]:,.1f} to {values[-1]:,.1f}){goal and '   goal ' + goal}", flush=True)
