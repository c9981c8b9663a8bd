import { join } from 'node:path';
import { type Log, silentLog } from '../../src/base/log/log.ts';
import { openAccessLog } from './access/access-log.ts';
import { serveAccessReview, serveReviewOfOthers } from './access/access-review.ts';
import { admit } from './access/admission.ts';
import { authorize, type RoleStore } from './access/authorization.ts';
import { serverCredentials } from './access/certificates.ts';
import { readAccountToken, serveTokenRequest, type TokenPorts } from './access/service-account-token.ts';
import { openClusterObjects } from './cluster-objects.ts';
import { startControllers } from './controllers/controllers.ts';
import { serveCluster } from './discovery/cluster-handler.ts';
import type { ApiRequest, ApiResponse, User } from './http/api-request.ts';
import { type StartInPod, serveExec, type UpgradedConnection } from './http/exec.ts';
import { type Listener, startHttp } from './http/http-server.ts';
import { isPublic } from './http/public-paths.ts';
import type { ReadBehaviour } from './read/read-behaviour.ts';
import type { Registry } from './resource/registry.ts';
import { type ResourcePorts, serveResource } from './resource-handler.ts';
import { openJournal } from './store/object-journal.ts';
import { Store } from './store/store.ts';
import type { PortRange } from './strategies/service/service-ranges.ts';
import type { ObjectWriter } from './write/object-writer.ts';
import { podBinder } from './write/pod-subresources.ts';

interface LabApiServerOptions {
  /** Folder for objects and credentials, created if absent; a later start with the same folder continues with them. */
  readonly dataDir: string;
  /** At least one: a descriptor that is already listening, or an address. */
  readonly listeners: readonly Listener[];
  /** Host names and IP addresses that clients use. */
  readonly sans: readonly string[];
  /** One range for each family, the preferred family first. */
  readonly serviceCidrs: readonly string[];
  /** One range for each family; every node gets a /22 and a /64 of them. */
  readonly podCidrs: readonly string[];
  readonly nodePortRange?: PortRange;
  /** Prefix lengths of a node's pod CIDRs; 22 and 64 if absent. */
  readonly nodeMasks?: { readonly ipv4: number; readonly ipv6: number };
  /** Plural names of kinds whose cache is empty: lists and watches show none of them; only a quorum read returns the objects. */
  readonly forgotten?: readonly string[];
  /** Further behaviour of a real server towards clients that list and watch; for tests. */
  readonly behaviour?: (store: Store) => ReadBehaviour;
  /** Further users by bearer token; RBAC objects define their permissions. */
  readonly users?: ReadonlyMap<string, User>;
  /** Runs programs in pods; absent: the server has no `exec`. */
  readonly exec?: StartInPod;
  readonly log?: Log;
}

export interface LabApiServer {
  readonly caPem: string;
  /** Bearer token of the administrator. */
  readonly token: string;
  /** Ports in the order of the listeners. */
  readonly ports: readonly number[];
  readonly store: Store;
  /** Registry for callers in this process, without HTTP. */
  readonly registry: Registry;
  readonly writer: ObjectWriter;
  /** Text of a kubeconfig for the administrator. */
  kubeconfig(serverUrl: string): string;
  close(): Promise<void>;
}

const defaultNodePorts: PortRange = { first: 30_000, last: 32_767 };
const defaultNodeMasks = { ipv4: 22, ipv6: 64 };

const administrator: User = { name: 'admin', groups: ['system:masters', 'system:authenticated'] };

/** Starts a Kubernetes API server for a lab, with the controllers a network needs. */
export async function startApiServer(options: LabApiServerOptions): Promise<LabApiServer> {
  const { log = silentLog } = options;
  const { now } = Date;
  const credentials = serverCredentials(options.dataDir, options.sans, now());
  const store = new Store(openJournal(options.dataDir));
  const { serviceCidrs, nodePortRange = defaultNodePorts } = options;
  const { registry, writer } = openClusterObjects({ store, serviceCidrs, nodePortRange, now });
  const bindPod = podBinder({ store, now });
  const podRanges = { cidrs: options.podCidrs, masks: options.nodeMasks ?? defaultNodeMasks };
  const stopControllers = startControllers({ store, registry, writer, bindPod, podRanges, caPem: credentials.caPem, log, now });
  const tokens = new Map<string, User>([[credentials.token, administrator], ...(options.users ?? [])]);
  const accountOf = (token: string) => readAccountToken(credentials.token, token, now());
  const userOf = (token: string) => tokens.get(token) ?? accountOf(token);
  const handlers = { ...handlersOf(options, { store, registry, writer, bindPod, now }, credentials.token), userOf };
  const http = await startHttp(options.listeners, {
    ...credentials,
    tokens,
    accountOf,
    log,
    serve: (request) => serve(handlers, request),
    ...(options.exec && { upgrade: upgradeWith(handlers, options.exec) }),
  });
  const close = async (): Promise<void> => {
    await http.close();
    await stopControllers();
    store.close();
  };
  const { caPem, token } = credentials;
  return { caPem, token, ports: http.ports, store, registry, writer, kubeconfig: (url) => kubeconfigText(url, credentials), close };
}

type ObjectParts = Pick<Handlers['resources'], 'writer' | 'bindPod' | 'now'> &
  ReturnType<typeof openClusterObjects> & { readonly store: Store };

function handlersOf(
  { behaviour, forgotten = [], dataDir }: LabApiServerOptions,
  objects: ObjectParts,
  key: string,
): Omit<Handlers, 'userOf'> {
  const { store, registry, now } = objects;
  const behaving = behaviour?.(store);
  return {
    roles: store,
    registry,
    tokens: { store, key, now },
    resources: {
      ...objects,
      admit: (admission) => admit(store, admission),
      forgotten: new Set(forgotten),
      ...(behaving === undefined ? {} : { behaviour: behaving }),
    },
    noteAccess: openAccessLog(join(dataDir, 'access.log')),
  };
}

/** Dependencies of the request handlers. */
interface Handlers {
  readonly roles: RoleStore;
  readonly userOf: (token: string) => User | undefined;
  readonly registry: Registry;
  readonly tokens: TokenPorts;
  readonly resources: ResourcePorts;
  readonly noteAccess: (request: ApiRequest, allowed: boolean) => void;
}

async function serve({ roles, userOf, registry, tokens, resources, noteAccess }: Handlers, request: ApiRequest): Promise<ApiResponse> {
  if (isPublic(request.path)) return serveCluster(registry, request) ?? serveResource(resources, request);
  const review = await serveAccessReview(roles, request);
  if (review !== undefined) return review;
  try {
    authorize(roles, request);
  } catch (refusal) {
    noteAccess(request, false);
    throw refusal;
  }
  noteAccess(request, true);
  const ofOthers = await serveReviewOfOthers({ roles, userOf }, request);
  if (ofOthers !== undefined) return ofOthers;
  return serveCluster(registry, request) ?? (await serveTokenRequest(tokens, request)) ?? serveResource(resources, request);
}

function upgradeWith({ roles, noteAccess }: Handlers, start: StartInPod) {
  return (request: ApiRequest, connection: UpgradedConnection): void => {
    authorize(roles, request);
    noteAccess(request, true);
    serveExec(request, connection, start);
  };
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
