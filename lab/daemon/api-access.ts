import { connect, createServer, type Server, type Socket } from 'node:net';
import { join } from 'node:path';
import { SeineError } from '../../src/base/errors/seine-error.ts';
import { startApiServer } from '../apiserver/api-server.ts';
import { type ApiCredentials, readKubeconfig } from '../kube/kubeconfig.ts';
import { readIfThere, writeFileWhole } from '../machine/files.ts';
import { labPaths } from '../plan/names.ts';
import { addressing, type LabPlan } from '../plan/plan.ts';
import { connectTcpIn, listenTcpIn } from '../probe/sockets.ts';
import type { ControlPlane } from '../real-kubernetes/control-plane.ts';
import { execInAgents } from './agent-pods.ts';

const portTries = 20;
const connectTimeoutMs = 5_000;
/** Above the kernel's default range of local ports: 32768 to 60999. */
const firstPort = 61_000;
const lastPort = 65_535;

/** The API server of a lab as seen from the host and from the nodes. */
export interface ApiAccess {
  readonly fromMachine: ApiCredentials;
  readonly fromNodes: ApiCredentials;
  close(): Promise<void>;
}

/**
 * Starts the lab's own API server, or opens a path for the nodes to an existing one.
 *
 * @param forgotten plural names of kinds that only a quorum read shows; of our own server
 */
export function openApi(plan: LabPlan, forgotten: readonly string[] = []): Promise<ApiAccess> {
  return plan.kubeconfig === undefined ? startOwn(plan, forgotten) : forwardTo(plan, plan.kubeconfig);
}

/** Starts a real control plane, and forwards connections to a loopback port of this host to it. */
export async function openRealApi(plan: LabPlan, controlPlane: ControlPlane, signal: AbortSignal): Promise<ApiAccess> {
  await controlPlane.prepare(signal);
  const { fd, port } = listenOnMachine(join(labPaths(plan.dir).dir, 'apiserver.port'));
  const { netns, ip, apiServerUrl } = plan.management;
  const forwarder = forward(() => connectTcpIn(netns, ip, addressing.apiServerPort, AbortSignal.timeout(connectTimeoutMs)));
  await listening(forwarder, fd);
  const fromMachine = controlPlane.administrator(`https://127.0.0.1:${port}`);
  try {
    await controlPlane.start(fromMachine, signal);
  } catch (error) {
    forwarder.close();
    throw error;
  }
  return { fromMachine, fromNodes: controlPlane.administrator(apiServerUrl), close: async () => void forwarder.close() };
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
    ...(plan.agentPods && { exec: execInAgents(plan) }),
  });
  const credentials = { caPem: server.caPem, token: server.token };
  return {
    fromMachine: { ...credentials, server: `https://127.0.0.1:${machine.port}` },
    fromNodes: { ...credentials, server: plan.management.apiServerUrl },
    close: () => server.close(),
  };
}

/** The port of an earlier run if it is free, so that copies of the kubeconfig stay valid. */
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
 * Nodes have no route out of the lab, so connections to the management address are forwarded to the existing API server. TLS stays end to
 * end: nodes check its certificate by its own name.
 */
async function forwardTo(plan: LabPlan, kubeconfig: string): Promise<ApiAccess> {
  const fromMachine = await readKubeconfig(kubeconfig);
  const { hostname, port } = new URL(fromMachine.server);
  const host = hostname.replace(/^\[|\]$/g, '');
  const forwarder = forward(async () => connect({ host, port: Number(port || 443) }));
  await listening(forwarder, listenTcpIn(plan.management.netns, plan.management.ip, addressing.apiServerPort));
  return {
    fromMachine,
    fromNodes: { ...fromMachine, server: plan.management.apiServerUrl, serverName: fromMachine.serverName ?? host },
    close: async () => void forwarder.close(),
  };
}

function listening(server: Server, fd: number): Promise<void> {
  return new Promise((resolve, reject) => {
    server.once('error', reject);
    server.listen({ fd }, resolve);
  });
}

/** Joins each connection to one of its own. @param open opens that, or rejects */
function forward(open: () => Promise<Socket>): Server {
  return createServer({ allowHalfOpen: true }, (inner) => {
    inner.on('error', () => inner.destroy());
    open().then(
      (outer) => joinSockets(inner, outer),
      () => inner.destroy(),
    );
  });
}

function joinSockets(inner: Socket, outer: Socket): void {
  const hangUp = () => {
    inner.destroy();
    outer.destroy();
  };
  for (const end of [inner, outer]) end.on('error', hangUp).on('close', hangUp);
  if (inner.destroyed) outer.destroy();
  inner.pipe(outer).pipe(inner);
}
