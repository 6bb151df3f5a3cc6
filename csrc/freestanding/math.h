/* What report.c takes of <math.h> where there is no library of C. */
#define INFINITY __builtin_inff()
#define sqrt __builtin_sqrt
