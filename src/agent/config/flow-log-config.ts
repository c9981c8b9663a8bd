import { z } from 'zod';
import { SeineError } from '../../base/errors/seine-error.ts';
import { closesChoices } from '../../operations/flow-log/closes-choices.ts';
import { exportFilter } from '../../operations/flow-log/export/export-filter.ts';
import type { IpfixCollector } from '../../operations/flow-log/export/ipfix-receiver.ts';
import { samplingChoices } from '../../operations/flow-log/sources/sampled-connections.ts';
import { absolutePath, size } from './value-schemas.ts';

/** Records that are exported; the schema of a query is that of `seinectl flows`. */
const exportedFlows = z.string().superRefine((text, context) => {
  try {
    exportFilter(text);
  } catch (thrown) {
    context.addIssue({ code: 'custom', message: SeineError.from(thrown, 'filter').rawMessage });
  }
});

/** Export of the flow log as OTLP logs over HTTP. */
export const otlpSchema = z.strictObject({
  /** Empty: nothing is exported. `/v1/logs` is added to a URL without a path. */
  endpoint: z
    .literal('')
    .or(z.url({ protocol: /^https?$/, error: 'is not an https:// or http:// URL' }))
    .default(''),
  /** File with a header `Name: value` a line, such as a token; read for each batch. */
  headersFile: absolutePath.optional(),
  /** File with certificates in PEM that may have signed the endpoint's. */
  caFile: absolutePath.optional(),
  /** Records to export: `summary`, `all`, or filters. */
  filter: exportedFlows.default('summary'),
});

/** Export of the flow log by IPFIX. */
export const ipfixSchema = z.strictObject({
  /** `tcp://`, `udp://` or `tls://` with host and port; empty: nothing is exported. */
  collector: z
    .string()
    .transform((text, context): IpfixCollector | undefined => {
      if (text === '') return undefined;
      const [, transport, bracketed, name, port] =
        /^(tcp|udp|tls):\/\/(?:\[([0-9a-fA-F:.]+)\]|([A-Za-z0-9.-]{1,253}))(?::(\d{1,5}))?$/.exec(text) ?? [];
      const collector = {
        transport: transport as IpfixCollector['transport'],
        host: bracketed ?? name ?? '',
        port: Number(port ?? (transport === 'tls' ? 4_740 : 4_739)),
      };
      if (transport !== undefined && collector.port >= 1 && collector.port <= 65_535) return collector;
      context.addIssue({ code: 'custom', message: `${JSON.stringify(text)} is not tcp://HOST:PORT, udp://HOST:PORT or tls://HOST:PORT` });
      return z.NEVER;
    })
    .prefault(''),
  /** File with certificates in PEM that may have signed the collector's. */
  caFile: absolutePath.optional(),
  /** Records to export: `all`, or filters. */
  filter: exportedFlows.refine((text) => text !== 'summary', 'must be all or filters: IPFIX has no summaries').default('all'),
});

/** Settings of the flow log. The ConfigMap `seine-live` takes precedence over `enabled` and `sampling`. */
export const flowLogSchema = z.strictObject({
  enabled: z.boolean().default(false),
  /** Maximum number of opened connections per second that this node records, shared equally by its namespaces; further ones are counted. */
  openings: z.int().min(1).max(10_000).default(2_000),
  /** One of so many connections is recorded, chosen by the source port so that both nodes choose the same ones; denied ones always are. */
  sampling: z.literal(samplingChoices).default(1),
  /** Number of records in memory, of 128 bytes each. */
  records: z.int().min(1_024).max(1_048_576).default(65_536),
  /** True if denied connections of all pods are recorded. */
  denied: z.boolean().default(true),
  /**
   * Ends of connections. `auto`: on the kernel's data path, of all with their bytes. `always`: also on the userspace data path, of TCP with
   * an estimate of the bytes, for which OVS copies two more packets of each connection to the agent.
   */
  closes: z.enum(closesChoices).default('auto'),
  /** Maximum size of denied, refused and closed connections below `stateDir`/flows; 0: they are in memory only. */
  keep: size.default(16 * 2 ** 20),
  /** True if a metric counts connections by namespace, of at most 100 series. */
  namespaceMetrics: z.boolean().default(false),
  otlp: otlpSchema.prefault({}),
  ipfix: ipfixSchema.prefault({}),
});
