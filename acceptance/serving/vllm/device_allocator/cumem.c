// Memory that can be unmapped and mapped again at its addresses, as in vLLM's sleep mode.
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/types.h>

typedef struct {
    int type, handles;
    struct { int type, id; } location;
    void *security;
    unsigned char flags[32];
} Properties;
typedef struct { struct { int type, id; } location; int flags; } Access;

int cuMemAddressReserve(uint64_t *, size_t, size_t, uint64_t, unsigned long long);
int cuMemAddressFree(uint64_t, size_t);
int cuMemCreate(uint64_t *, size_t, const Properties *, unsigned long long);
int cuMemRelease(uint64_t);
int cuMemMap(uint64_t, size_t, size_t, uint64_t, unsigned long long);
int cuMemUnmap(uint64_t, size_t);
int cuMemSetAccess(uint64_t, size_t, const Access *, size_t);

enum { MOST = 4096, PAGE = 2 << 20 };
static struct { uint64_t address, handle; size_t size; int mapped; } blocks[MOST];

static int map(int i) {
    Properties properties;
    memset(&properties, 0, sizeof properties);
    properties.type = properties.location.type = 1; /* pinned, on a device */
    Access access = {{1, 0}, 3};
    if (cuMemCreate(&blocks[i].handle, blocks[i].size, &properties, 0)) return 1;
    if (cuMemMap(blocks[i].address, blocks[i].size, 0, blocks[i].handle, 0)) return 1;
    if (cuMemSetAccess(blocks[i].address, blocks[i].size, &access, 1)) return 1;
    return blocks[i].mapped = 1, 0;
}

static void unmap(int i) {
    cuMemUnmap(blocks[i].address, blocks[i].size);
    cuMemRelease(blocks[i].handle);
    blocks[i].mapped = 0;
}

void *my_malloc(ssize_t size, int device, void *stream) {
    (void)device, (void)stream;
    for (int i = 0; i < MOST; i++)
        if (!blocks[i].size) {
            blocks[i].size = ((size_t)size + PAGE - 1) / PAGE * PAGE;
            if (cuMemAddressReserve(&blocks[i].address, blocks[i].size, PAGE, 0, 0) || map(i)) return NULL;
            return (void *)blocks[i].address;
        }
    return NULL;
}

void my_free(void *address, ssize_t size, int device, void *stream) {
    (void)size, (void)device, (void)stream;
    for (int i = 0; i < MOST; i++)
        if (blocks[i].size && blocks[i].address == (uint64_t)address) {
            if (blocks[i].mapped) unmap(i);
            cuMemAddressFree(blocks[i].address, blocks[i].size);
            blocks[i].size = 0;
        }
}

void sleep_all(void) {
    for (int i = 0; i < MOST; i++)
        if (blocks[i].mapped) unmap(i);
}

int wake_all(void) {
    for (int i = 0; i < MOST; i++)
        if (blocks[i].size && !blocks[i].mapped && map(i)) return 1;
    return 0;
}

size_t mapped_bytes(void) {
    size_t sum = 0;
    for (int i = 0; i < MOST; i++)
        if (blocks[i].mapped) sum += blocks[i].size;
    return sum;
}
