# Code that a stopped thread of a running program runs once, and a thread that it creates. Assembled into `stub.rs`.
#
# The first words are filled in before the code is written to unused bytes behind the code of a loaded object. The thread enters at
# `interrupted` with the address at which it goes on at the top of its stack, below the 128 bytes that its function may use. It keeps all
# registers, the flags, errno and the mask of signals, so that it needs no debugger to go on.
        .intel_syntax noprefix
        .text
start:  .ascii  "vramscope-attach"
create: .quad   0               # pthread_create
detach: .quad   0               # pthread_detach
errno:  .quad   0               # __errno_location
open:   .quad   0               # dlopen
symbol: .quad   0               # dlsym
state:  .quad   0               # words that can be written: status of pthread_create plus 1, whether this thread has gone on, result of the
                                # called function plus 1, whether it must not be called
name:   .quad   0               # texts: the name of the library, its path, the function, and its two arguments
path:   .quad   0
called: .quad   0
first:  .quad   0
second: .quad   0
all:    .quad   -1              # all signals
title:  .asciz  "vramscope"
        .balign 8

interrupted:
        pushfq
        push    rax
        push    rcx
        push    rdx
        push    rbx
        push    rbp
        push    rsi
        push    rdi
        push    r8
        push    r9
        push    r10
        push    r11
        push    r12
        push    r13
        push    r14
        push    r15
        cld
        mov     rbp, rsp
        sub     rsp, 2880       # 64 bytes of variables, and registers of x87, SSE, AVX and AVX-512
        and     rsp, -64
        xor     eax, eax
        lea     rdi, [rsp + 512]
        mov     ecx, 8
        rep stosq
        mov     eax, 0xe7
        xor     edx, edx
        xsave64 [rsp]
        mov     edi, 2          # SIG_SETMASK
        lea     rsi, [rip + all]
        lea     rdx, [rbp - 16]
        mov     r10d, 8
        mov     eax, 14         # rt_sigprocmask
        syscall
        call    qword ptr [rip + errno]
        mov     r12d, [rax]
        lea     rdi, [rbp - 24]
        xor     esi, esi
        lea     rdx, [rip + thread]
        xor     ecx, ecx
        call    qword ptr [rip + create]
        mov     ebx, eax
        test    eax, eax
        jnz     1f
        mov     rdi, [rbp - 24]
        call    qword ptr [rip + detach]
1:      inc     ebx
        mov     r13, [rip + state]
        mov     [r13], rbx
        call    qword ptr [rip + errno]
        mov     [rax], r12d
        mov     edi, 2
        lea     rsi, [rbp - 16]
        xor     edx, edx
        mov     r10d, 8
        mov     eax, 14
        syscall
        mov     eax, 0xe7
        xor     edx, edx
        xrstor64 [rsp]
        mov     qword ptr [r13 + 8], 1
        mov     rsp, rbp
        pop     r15
        pop     r14
        pop     r13
        pop     r12
        pop     r11
        pop     r10
        pop     r9
        pop     r8
        pop     rdi
        pop     rsi
        pop     rbp
        pop     rbx
        pop     rdx
        pop     rcx
        pop     rax
        popfq
        ret     128

thread:
        push    rbx
        mov     edi, 15         # PR_SET_NAME
        lea     rsi, [rip + title]
        mov     eax, 157        # prctl
        syscall
        mov     rdi, [rip + name]
        mov     esi, 5          # RTLD_LAZY | RTLD_NOLOAD
        call    qword ptr [rip + open]
        test    rax, rax
        jnz     1f
        mov     rdi, [rip + path]
        mov     esi, 2          # RTLD_NOW
        call    qword ptr [rip + open]
        mov     ebx, 101
        test    rax, rax
        jz      2f
1:      mov     rdi, rax
        mov     rsi, [rip + called]
        call    qword ptr [rip + symbol]
        mov     ebx, 102
        test    rax, rax
        jz      2f
        mov     rcx, [rip + state]
        mov     ebx, 103
        cmp     qword ptr [rcx + 24], 0
        jne     2f
        mov     rdi, [rip + first]
        mov     rsi, [rip + second]
        call    rax
        mov     ebx, eax
2:      inc     ebx
        mov     rcx, [rip + state]
        mov     [rcx + 16], rbx
        xor     eax, eax
        pop     rbx
        ret
