import { connect, createServer, type Server } from 'node:net';
import { join } from 'node:path';
import { SeineError } from '../../errors/seine-error.ts';
import { startApiServer } from '../apiserver/api-server.ts';
import { type ApiCredentials, readKubeconfig } from '../kube/kubeconfig.ts';
import { readIfThere, writeFileWhole } from '../machine/files.ts';
import { labPaths } from '../plan/names.ts';
import { addressing, type LabPlan } from '../plan/plan.ts';
import { listenTcpIn } from '../probe/sockets.ts';

const portTries = 20;
/** Above what the kernel gives to outgoing connections by itself: 32768 to 60999. */
const firstPort = 61_000;
const lastPort = 65_535;

/** The API server of a lab as seen from the machine and from the nodes. */
export interface ApiAccess {
  readonly fromMachine: ApiCredentials;
  readonly fromNodes: ApiCredentials;
  close(): Promise<void>;
}

/**
 * Starts the lab's own API server, or opens a way for the nodes to the one that exists.
 *
 * @param forgotten plural names of kinds that only a quorum read shows; of our own server
 */
export function openApi(plan: LabPlan, forgotten: readonly string[] = []): Promise<ApiAccess> {
  return plan.kubeconfig === undefined ? startOwn(plan, forgotten) : forwardTo(plan, plan.kubeconfig);
}

async function startOwn(plan: LabPlan, forgotten: readonly string[]): Promise<ApiAccess> {
  const paths = labPaths(plan.dir);
  const machine = listenOnMachine(join(paths.dir, 'apiserver.port'));
  const server = await startApiServer({
    dataDir: paths.apiServer,
    listeners: [{ fd: machine.fd }, { fd: listenTcpIn(plan.management.netns, plan.management.ip, addressing.apiServerPort) }],
    sans: ['127.0.0.1', 'localhost', plan.management.ip],
    podCidrs: plan.podCidrs,
    serviceCidrs: plan.serviceCidrs,
    forgotten,
  });
  const credentials = { caPem: server.caPem, token: server.token };
  return {
    fromMachine: { ...credentials, server: `https://127.0.0.1:${machine.port}` },
    fromNodes: { ...credentials, server: plan.management.apiServerUrl },
    close: () => server.close(),
  };
}

/** The port of an earlier run if it can be had again, so that copies of the kubeconfig stay good. */
function listenOnMachine(remembered: string): { fd: number; port: number } {
  const before = Number(readIfThere(remembered) ?? 0);
  for (let tries = 0; tries < portTries; tries++) {
    const port = tries === 0 && before > 0 ? before : firstPort + Math.floor(Math.random() * (lastPort - firstPort + 1));
    try {
      const fd = listenTcpIn('here', '127.0.0.1', port);
      writeFileWhole(remembered, String(port));
      return { fd, port };
    } catch (error) {
      if (!(error instanceof SeineError && error.context['errno'] === 'EADDRINUSE')) throw error;
    }
  }
  throw new SeineError('REFUSED', `no free port on 127.0.0.1 in ${portTries} tries`);
}

/**
 * Nodes have no way out of the lab, so what they send to the management address is carried to the API server that exists.
 * TLS stays end to end: they check its certificate by its own name.
 */
async function forwardTo(plan: LabPlan, kubeconfig: string): Promise<ApiAccess> {
  const fromMachine = await readKubeconfig(kubeconfig);
  const { hostname, port } = new URL(fromMachine.server);
  const host = hostname.replace(/^\[|\]$/g, '');
  const forwarder = forward(host, Number(port || 443));
  await new Promise<void>((resolve, reject) => {
    forwarder.once('error', reject);
    forwarder.listen({ fd: listenTcpIn(plan.management.netns, plan.management.ip, addressing.apiServerPort) }, resolve);
  });
  return {
    fromMachine,
    fromNodes: { ...fromMachine, server: plan.management.apiServerUrl, serverName: fromMachine.serverName ?? host },
    close: async () => void forwarder.close(),
  };
}

function forward(host: string, port: number): Server {
  return createServer((inner) => {
    const outer = connect({ host, port });
    const hangUp = () => {
      inner.destroy();
      outer.destroy();
    };
    inner.on('error', hangUp).on('close', hangUp);
    outer.on('error', hangUp).on('close', hangUp);
    inner.pipe(outer).pipe(inner);
  });
}
