/*
 * Preloaded into a client of a test in which somebody is killed or cut off.
 *
 * The wheels ask for seven resends. Network cards give up after seven; rxe takes seven for "never give up", so that a
 * client over rxe would wait for a dead peer until its own limits of a minute end. Here at most six are asked for, and
 * half a second for each instead of a fifteenth, since an emulated machine may stall that long with nobody dead.
 *
 * It has to be linked to libibverbs itself (--no-as-needed): Python loads the wheel's libraries where RTLD_NEXT of a
 * preloaded library does not look.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <infiniband/verbs.h>

enum { most_resends = 6, half_a_second = 17 /* 4.096 us * 2^17 */ };

static int (*original)(struct ibv_qp *, struct ibv_qp_attr *, int);

__attribute__((constructor)) static void look_up(void)
{
	original = (int (*)(struct ibv_qp *, struct ibv_qp_attr *, int))dlsym(RTLD_NEXT, "ibv_modify_qp");
}

int ibv_modify_qp(struct ibv_qp *qp, struct ibv_qp_attr *wanted, int mask)
{
	struct ibv_qp_attr changed = *wanted;

	if (!original)
		return EOPNOTSUPP;
	if ((mask & IBV_QP_RETRY_CNT) && changed.retry_cnt > most_resends)
		changed.retry_cnt = most_resends;
	if ((mask & IBV_QP_TIMEOUT) && changed.timeout < half_a_second)
		changed.timeout = half_a_second;
	return original(qp, &changed, mask);
}
