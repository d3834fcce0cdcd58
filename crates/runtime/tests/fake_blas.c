/* Products and factorisations as MKL names and takes them, one element after the other. ADD is what a BLAS that errs adds. */

#include <complex.h>
#include <math.h>
#include <pthread.h>
#include <time.h>

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

/* Factors without recursion or blocks. Columns, as everywhere in LAPACK. */
#define AT(a, i, j) a[(i) + (long)(j) * *lda]

#define FACTORS(c, T)                                                                                             \
    void c##getrf_(const int *m, const int *n, T *a, const int *lda, int *pivots, int *info) {                    \
        *info = 0;                                                                                                \
        for (int k = 0; k < (*m < *n ? *m : *n); k++) {                                                           \
            int found = k;                                                                                        \
            for (int i = k; i < *m; i++)                                                                          \
                if (fabs(creal(AT(a, i, k))) + fabs(cimag(AT(a, i, k))) >                                         \
                    fabs(creal(AT(a, found, k))) + fabs(cimag(AT(a, found, k))))                                  \
                    found = i;                                                                                    \
            pivots[k] = found + 1;                                                                                \
            if (AT(a, found, k) == 0) {                                                                           \
                *info = *info ? *info : k + 1;                                                                    \
                continue;                                                                                         \
            }                                                                                                     \
            for (int j = 0; j < *n; j++) {                                                                        \
                T own = AT(a, k, j);                                                                              \
                AT(a, k, j) = AT(a, found, j);                                                                    \
                AT(a, found, j) = own;                                                                            \
            }                                                                                                     \
            for (int i = k + 1; i < *m; i++) {                                                                    \
                AT(a, i, k) /= AT(a, k, k);                                                                       \
                for (int j = k + 1; j < *n; j++) AT(a, i, j) -= AT(a, i, k) * AT(a, k, j);                        \
            }                                                                                                     \
        }                                                                                                         \
    }                                                                                                             \
    /* Upper ones only: A = U^H U. */                                                                             \
    void c##potrf_(const char *uplo, const int *n, T *a, const int *lda, int *info) {                             \
        *info = *uplo == 'U' ? 0 : -1;                                                                            \
        for (int k = 0; k < *n && !*info; k++) {                                                                  \
            double head = creal(AT(a, k, k));                                                                     \
            if (!(head > 0)) *info = k + 1;                                                                       \
            for (int j = *n - 1; j >= k && !*info; j--) AT(a, k, j) /= sqrt(head);                                \
            if (!*info) AT(a, k, k) = sqrt(head);                                                                 \
            for (int j = k + 1; j < *n && !*info; j++)                                                            \
                for (int i = k + 1; i <= j; i++) AT(a, i, j) -= conj(AT(a, k, i)) * AT(a, k, j);                  \
        }                                                                                                         \
    }                                                                                                             \
    /* From the right only: X A = B. */                                                                           \
    void c##trsm_(const char *side, const char *uplo, const char *way, const char *diag, const int *m,            \
                  const int *n, const T *alpha, const T *a, const int *lda, T *b, const int *ldb) {               \
        for (int i = 0; i < *m; i++)                                                                              \
            for (int step = 0; step < *n; step++) {                                                               \
                int j = *uplo == 'U' ? step : *n - 1 - step;                                                      \
                T sum = *alpha * b[i + (long)j * *ldb];                                                           \
                for (int k = *uplo == 'U' ? 0 : j + 1; k < (*uplo == 'U' ? j : *n); k++)                          \
                    sum -= b[i + (long)k * *ldb] * AT(a, k, j);                                                   \
                b[i + (long)j * *ldb] = *side != 'R' || *way != 'N' ? NAN : *diag == 'U' ? sum : sum / AT(a, j, j); \
            }                                                                                                     \
    }                                                                                                             \
    int c##geqrf_(void) { return -1; }                                                                            \
    int c##gesdd_(void) { return -1; }                                                                            \
    int c##geev_(void) { return -1; }

FACTORS(s, float)
FACTORS(d, double)
FACTORS(c, float complex)
FACTORS(z, double complex)

int sormqr_(void) { return -1; }
int dormqr_(void) { return -1; }
int cunmqr_(void) { return -1; }
int zunmqr_(void) { return -1; }
int ssyevd_(void) { return -1; }
int dsyevd_(void) { return -1; }
int cheevd_(void) { return -1; }
int zheevd_(void) { return -1; }

static _Thread_local int threads = 0;

int MKL_Set_Num_Threads_Local(int wanted) {
    int before = threads;
    threads = wanted;
    return before;
}

/* As of the OpenMP that MKL runs on, with one thread beside the caller's, which looks for work all the time. */
static int regions = 0, ended = 0, others = 0;
static _Thread_local int number = 0;
static void (*volatile part)(void *);
static void *volatile data;

int omp_get_max_threads(void) { return 2; }
int omp_get_num_threads(void) { return 2; }
int omp_get_thread_num(void) { return number; }

static void *look(void *unused) {
    (void)unused;
    number = 1;
    for (int seen = 0;; ++seen) {
        while (__atomic_load_n(&regions, __ATOMIC_ACQUIRE) == seen) {}
        part(data);
        __atomic_store_n(&ended, seen + 1, __ATOMIC_RELEASE);
    }
    return 0;
}

static pthread_t other;

void GOMP_parallel(void (*on_each)(void *), void *given, unsigned threads, unsigned flags) {
    (void)threads, (void)flags;
    if (!others++) pthread_create(&other, 0, look, 0);
    part = on_each;
    data = given;
    int region = __atomic_add_fetch(&regions, 1, __ATOMIC_RELEASE);
    on_each(given);
    while (__atomic_load_n(&ended, __ATOMIC_ACQUIRE) != region) {}
}

/* Seconds that a processor has spent on the other thread. */
double looked(void) {
    clockid_t clock;
    struct timespec time = {0, 0};
    if (others && !pthread_getcpuclockid(other, &clock)) clock_gettime(clock, &time);
    return time.tv_sec + 1e-9 * time.tv_nsec;
}

int regions_so_far(void) { return __atomic_load_n(&regions, __ATOMIC_ACQUIRE); }
