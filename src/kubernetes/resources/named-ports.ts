import * as z from 'zod';
import { listOf, protocol } from '../client/resource.ts';

/** Fields of a pod's containers that concern ports. */
export const portedContainers = listOf(
  z.object({
    restartPolicy: z.string().nullish(),
    ports: listOf(z.object({ name: z.string().nullish(), containerPort: z.int().min(0).max(65_535), protocol: protocol.nullish() })),
  }),
);

interface PortedPod {
  readonly containers: z.output<typeof portedContainers>;
  readonly initContainers: z.output<typeof portedContainers>;
}

/** Returns ports by name and protocol, `http/TCP`: of several containers the first that has it, then of sidecars. */
export function namedPorts({ containers, initContainers }: PortedPod): Readonly<Record<string, number>> {
  const sidecars = initContainers.filter(({ restartPolicy }) => restartPolicy === 'Always');
  const ports: Record<string, number> = {};
  for (const { name, protocol: of, containerPort } of [...containers, ...sidecars].flatMap((each) => each.ports))
    if (name) ports[`${name}/${of ?? 'TCP'}`] ??= containerPort;
  return ports;
}
