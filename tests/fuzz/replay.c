/*
 * replay: runs a fuzzer's entry point over every file of the corpus folders named on the command line, for
 * builds without libFuzzer. Fails if a folder is missing or empty, so that a lost corpus is noticed.
 */
#include <dirent.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static int replay_file(const char *path)
{
    static uint8_t buf[1 << 20];
    FILE *f = fopen(path, "rb");
    if (!f) {
        perror(path);
        return -1;
    }
    size_t n = fread(buf, 1, sizeof buf, f);
    fclose(f);
    uint8_t *exact = malloc(n ? n : 1); /* own block, so that a sanitizer sees an over-read */
    if (!exact)
        return -1;
    for (size_t i = 0; i < n; i++)
        exact[i] = buf[i];
    LLVMFuzzerTestOneInput(exact, n);
    free(exact);
    return 0;
}

int main(int argc, char **argv)
{
    int n_files = 0;
    for (int i = 1; i < argc; i++) {
        DIR *d = opendir(argv[i]);
        if (!d) {
            perror(argv[i]);
            return 1;
        }
        for (struct dirent *e; (e = readdir(d));) {
            char path[4096];
            if (e->d_name[0] == '.')
                continue;
            snprintf(path, sizeof path, "%s/%s", argv[i], e->d_name);
            if (replay_file(path))
                return 1;
            n_files++;
        }
        closedir(d);
    }
    printf("%d inputs replayed\n", n_files);
    return n_files ? 0 : 1;
}
