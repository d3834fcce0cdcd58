/* Products as MKL names and takes them, one element after the other. ADD is what a BLAS that errs adds. */

#ifndef ADD
#define ADD 0
#endif

#define GEMM(name, T)                                                                                              \
    void name(const char *ta, const char *tb, const int *m, const int *n, const int *k, const T *alpha, const T *a, \
              const int *lda, const T *b, const int *ldb, const T *beta, T *c, const int *ldc) {                    \
        for (int j = 0; j < *n; j++)                                                                                \
            for (int i = 0; i < *m; i++) {                                                                          \
                T sum = ADD;                                                                                        \
                for (int l = 0; l < *k; l++)                                                                        \
                    sum += (*ta == 'N' ? a[i + (long)l * *lda] : a[l + (long)i * *lda]) *                           \
                           (*tb == 'N' ? b[l + (long)j * *ldb] : b[j + (long)l * *ldb]);                            \
                T *out = &c[i + (long)j * *ldc];                                                                    \
                *out = *alpha * sum + (*beta == 0 ? 0 : *beta * *out);                                              \
            }                                                                                                       \
    }

GEMM(sgemm_, float)
GEMM(dgemm_, double)

static _Thread_local int threads = 0;

int MKL_Set_Num_Threads_Local(int wanted) {
    int before = threads;
    threads = wanted;
    return before;
}

/* As of the OpenMP that MKL runs on: lets idle threads go. */
static int pauses = 0;

int omp_pause_resource_all(int kind) {
    __atomic_fetch_add(&pauses, kind == 1, __ATOMIC_SEQ_CST);
    return 0;
}

int paused(void) { return __atomic_load_n(&pauses, __ATOMIC_SEQ_CST); }
