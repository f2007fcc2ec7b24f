/* Simulates an application on an NFS client while the server is killed and restarted: keeps a file
 * open with a locked range, or writes continuously. Exits with status 1 on any error.
 *
 *   holder lock FILE        opens the file, locks bytes 100-199, prints "locked"; for each line of
 *                           input uses the file and the lock, prints "good"
 *   holder write FILE STOP  writes numbered blocks of 64 KiB with an fsync after each eighth, until
 *                           STOP exists; then reads everything
 *   holder try FILE         prints whether bytes 100-199 can be locked now: "free" or "held"
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { BLOCK = 65536, WRAP = 256 };

static void check(int good, const char *what) {
    if (good) return;
    printf("FAILED: %s: %s\n", what, strerror(errno));
    exit(1);
}

static int range(int fd, short type, off_t start, off_t length) {
    struct flock lock = {.l_type = type, .l_whence = SEEK_SET, .l_start = start, .l_len = length};
    return fcntl(fd, F_SETLK, &lock);
}

static void hold(const char *path) {
    char text[64], back[64], line[64];
    int fd = open(path, O_RDWR | O_CREAT, 0644);
    check(fd >= 0, "open");
    check(range(fd, F_WRLCK, 100, 100) == 0, "lock");
    /* An unlinked file too: its contents must survive the restart of the server. */
    char gone[4096];
    snprintf(gone, sizeof gone, "%s.gone", path);
    int nameless = open(gone, O_RDWR | O_CREAT | O_TRUNC, 0600);
    check(nameless >= 0 && write(nameless, "still here", 10) == 10 && fsync(nameless) == 0, "file to unlink");
    check(unlink(gone) == 0, "unlink");
    puts("locked");
    for (int round = 1; fgets(line, sizeof line, stdin); round++) {
        int length = snprintf(text, sizeof text, "round %d", round);
        check(pwrite(fd, text, length, 120) == length, "write into the locked range");
        check(fsync(fd) == 0, "fsync");
        check(posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED) == 0, "forget pages");
        check(pread(fd, back, length, 120) == length && memcmp(text, back, length) == 0, "read it back");
        check(range(fd, F_WRLCK, 300 + round, 1) == 0, "lock more");
        check(range(fd, F_UNLCK, 300 + round, 1) == 0, "unlock that");
        check(posix_fadvise(nameless, 0, 0, POSIX_FADV_DONTNEED) == 0 && pread(nameless, back, 10, 0) == 10 && memcmp(back, "still here", 10) == 0, "file without a name");
        puts("good");
    }
    check(range(fd, F_UNLCK, 0, 0) == 0 && close(fd) == 0 && close(nameless) == 0, "let go");
    puts("let go");
}

static void fill(char *block, unsigned number) {
    for (unsigned i = 0; i < BLOCK / sizeof number; i++) ((unsigned *)block)[i] = number * 2654435761u + i;
}

static void write_on(const char *path, const char *stop) {
    static char block[BLOCK], back[BLOCK];
    int fd = open(path, O_RDWR | O_CREAT | O_TRUNC, 0644);
    check(fd >= 0, "open");
    unsigned n = 0;
    for (; access(stop, F_OK) != 0; n++) {
        fill(block, n);
        check(pwrite(fd, block, BLOCK, (off_t)(n % WRAP) * BLOCK) == BLOCK, "write");
        if (n % 8 == 7) check(fsync(fd) == 0, "fsync");
    }
    check(fsync(fd) == 0 && posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED) == 0, "last fsync");
    for (unsigned i = n < WRAP ? 0 : n - WRAP; i < n; i++) {
        fill(block, i);
        check(pread(fd, back, BLOCK, (off_t)(i % WRAP) * BLOCK) == BLOCK, "read");
        if (memcmp(block, back, BLOCK) != 0) errno = 0, check(0, "contents differ");
    }
    check(close(fd) == 0, "close");
    printf("wrote %u blocks\n", n);
}

int main(int argc, char **argv) {
    setvbuf(stdout, NULL, _IOLBF, 0);
    if (argc == 3 && strcmp(argv[1], "lock") == 0) hold(argv[2]);
    else if (argc == 4 && strcmp(argv[1], "write") == 0) write_on(argv[2], argv[3]);
    else if (argc == 3 && strcmp(argv[1], "try") == 0) {
        int fd = open(argv[2], O_RDWR);
        check(fd >= 0, "open");
        if (range(fd, F_WRLCK, 100, 100) == 0) puts("free");
        else if (errno == EAGAIN || errno == EACCES) puts("held");
        else check(0, "lock");
    } else return fputs("holder lock|write|try FILE\n", stderr), 2;
    return 0;
}
