import { join } from 'node:path';
import { type Log, silentLog } from '../../log/log.ts';
import { openAccessLog } from './access-log.ts';
import { serveAccessReview } from './access-review.ts';
import type { Answer, ApiRequest, User } from './api-request.ts';
import { authorize } from './authorization.ts';
import { serverCredentials } from './certificates.ts';
import { isPublic, serveCluster } from './cluster-handler.ts';
import { startControllers } from './controllers/controllers.ts';
import type { Core } from './core.ts';
import { type Listener, startHttp } from './http-server.ts';
import { openJournal } from './journal.ts';
import { newCore } from './new-core.ts';
import { serveResource } from './resource-handler.ts';
import { readAccountToken, serveTokenRequest } from './service-account-token.ts';
import type { PortRange } from './service-ranges.ts';
import { Store } from './store.ts';

export interface ApiServerOptions {
  /** Folder for objects and credentials, made if absent; a later start with the same folder goes on from there. */
  readonly dataDir: string;
  /** At least one: a descriptor that is already listening, or an address. */
  readonly listeners: readonly Listener[];
  /** Host names and IP addresses by which clients come. */
  readonly sans: readonly string[];
  /** One range for each family, the preferred family first. */
  readonly serviceCidrs: readonly string[];
  /** One range for each family; every node gets a /22 and a /64 of them. */
  readonly podCidrs: readonly string[];
  readonly nodePortRange?: PortRange;
  /** Prefix lengths of a node's pod CIDRs; 22 and 64 if absent. */
  readonly nodeMasks?: { readonly ipv4: number; readonly ipv6: number };
  /** Plural names of kinds whose cache is empty, see `Core`. */
  readonly forgotten?: readonly string[];
  /** Further users by bearer token; RBAC objects say what they may do. */
  readonly users?: ReadonlyMap<string, User>;
  readonly log?: Log;
}

export interface ApiServer {
  readonly caPem: string;
  /** Bearer token of the administrator. */
  readonly token: string;
  /** In the order of the listeners. */
  readonly ports: readonly number[];
  readonly store: Store;
  /** For callers in this process, who may use the functions of write.ts and read.ts without HTTP. */
  readonly core: Core;
  /** Text of a kubeconfig for the administrator. */
  kubeconfig(serverUrl: string): string;
  close(): Promise<void>;
}

const defaultNodePorts: PortRange = { first: 30_000, last: 32_767 };
const defaultNodeMasks = { ipv4: 22, ipv6: 64 };

/** Starts a Kubernetes API server for a lab, with the controllers a network needs. */
export async function startApiServer(options: ApiServerOptions): Promise<ApiServer> {
  const { log = silentLog } = options;
  const credentials = serverCredentials(options.dataDir, options.sans, Date.now());
  const store = new Store(openJournal(options.dataDir));
  const { serviceCidrs, nodePortRange = defaultNodePorts, forgotten = [] } = options;
  const core = newCore({ store, serviceCidrs, nodePortRange, forgotten, now: Date.now });
  const podRanges = { cidrs: options.podCidrs, masks: options.nodeMasks ?? defaultNodeMasks };
  const stopControllers = startControllers(core, { podRanges, caPem: credentials.caPem, log });
  const tokens = new Map<string, User>([
    [credentials.token, { name: 'admin', groups: ['system:masters', 'system:authenticated'] }],
    ...(options.users ?? []),
  ]);
  const noteAccess = openAccessLog(join(options.dataDir, 'access.log'));
  const http = await startHttp(options.listeners, {
    ...credentials,
    tokens,
    accountOf: (token) => readAccountToken(credentials.token, token, Date.now()),
    log,
    serve: (request) => serve(core, request, { accountKey: credentials.token, noteAccess }),
  });
  return {
    caPem: credentials.caPem,
    token: credentials.token,
    ports: http.ports,
    store,
    core,
    kubeconfig: (serverUrl) => kubeconfigText(serverUrl, credentials),
    close: async () => {
      await http.close();
      await stopControllers();
      store.close();
    },
  };
}

interface Doors {
  /** Signs tokens of service accounts. */
  readonly accountKey: string;
  readonly noteAccess: (request: ApiRequest, allowed: boolean) => void;
}

async function serve(core: Core, request: ApiRequest, { accountKey, noteAccess }: Doors): Promise<Answer> {
  if (isPublic(request.path)) return serveCluster(core, request) ?? serveResource(core, request);
  const review = await serveAccessReview(core, request);
  if (review !== undefined) return review;
  try {
    authorize(core, request);
  } catch (refusal) {
    noteAccess(request, false);
    throw refusal;
  }
  noteAccess(request, true);
  return serveCluster(core, request) ?? (await serveTokenRequest(core, request, accountKey)) ?? serveResource(core, request);
}

function kubeconfigText(server: string, { caPem, token }: { readonly caPem: string; readonly token: string }): string {
  const ca = Buffer.from(caPem).toString('base64');
  return [
    'apiVersion: v1',
    'kind: Config',
    'clusters:',
    `- {name: seine-lab, cluster: {server: ${JSON.stringify(server)}, certificate-authority-data: ${ca}}}`,
    'users:',
    `- {name: seine-lab-admin, user: {token: ${token}}}`,
    'contexts:',
    '- {name: seine-lab, context: {cluster: seine-lab, user: seine-lab-admin}}',
    'current-context: seine-lab',
    '',
  ].join('\n');
}
