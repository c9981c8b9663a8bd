#ifndef SEINE_PROBE_H
#define SEINE_PROBE_H

/* `seine --probe livez|readyz|readyz/rollout SOCKET [SECONDS]`, without the first two words. Returns the exit code. */
int probe_agent(int argc, char **argv);

#endif
