// Calls the function to which PyTorch's allocator reports, as often as asked. Returns nanoseconds per event.
#include <time.h>

void _ZN3c1027reportMemoryUsageToProfilerEPvlmmNS_6DeviceE(
    void *, long, unsigned long, unsigned long, unsigned long long);

double events(long pairs) {
    struct timespec start, end;
    clock_gettime(CLOCK_MONOTONIC, &start);
    for (long i = 0; i < pairs; i++) {
        _ZN3c1027reportMemoryUsageToProfilerEPvlmmNS_6DeviceE((void *)4096, 512, 512, 512, 1);
        _ZN3c1027reportMemoryUsageToProfilerEPvlmmNS_6DeviceE((void *)4096, -512, 0, 512, 1);
    }
    clock_gettime(CLOCK_MONOTONIC, &end);
    return ((end.tv_sec - start.tv_sec) * 1e9 + end.tv_nsec - start.tv_nsec) / (2 * pairs);
}

// The same below this many frames of C.
__attribute__((noinline)) double events_below(long frames, long pairs) {
    double result = frames > 1 ? events_below(frames - 1, pairs) : events(pairs);
    __asm__ volatile("");
    return result;
}
