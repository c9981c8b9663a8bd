import * as z from 'zod';
import { SeineError } from '../../base/errors/seine-error.ts';
import { readInputs } from '../../operations/compiler-inputs/inputs-document.ts';
import { quotedName } from '../../operations/diagnose/entries/node-reader.ts';
import { inputsName, ownersName, policyEvidenceName } from '../../operations/support-bundle/agent-files.ts';
import { readArchive } from '../../operations/support-bundle/archive.ts';
import { bridgePortsName, heldName } from '../../operations/support-bundle/openflow-files.ts';
import { BundledNode } from '../../simulate/cluster/bundled-node.ts';
import { type BundleObjects, objectFiles, objectsOf } from '../reach/bundle-objects.ts';

const ownersSchema = z.object({ items: z.array(z.object({ owner: z.string() })) });

/** Objects and node of one bundle. */
export interface ReadBundle {
  readonly path: string;
  readonly node: BundledNode;
  /** False if the desired state changed while the inputs were recorded. */
  readonly isSteady: boolean;
  /** Absent if the agent could not read them, e.g. because the API server was down. */
  readonly known?: BundleObjects;
  /** Reason why these are absent. */
  readonly lack?: string;
}

const bundleFiles: readonly string[] = [inputsName, heldName, bridgePortsName, ownersName, ...objectFiles];

/** Reads the node of a bundle, and the objects of its cluster. @throws SeineError `INVALID_INPUT` that names the file */
export async function readBundle(path: string): Promise<ReadBundle> {
  const files = await readArchive(path, (name) => bundleFiles.includes(name));
  const text = (name: string): string | undefined => {
    const bytes = files.get(name);
    return bytes && Buffer.from(bytes).toString('utf8');
  };
  const [inputs, held] = [text(inputsName), text(heldName)];
  if (inputs === undefined || held === undefined)
    throw new SeineError('INVALID_INPUT', `${path} has no ${inputs === undefined ? inputsName : heldName}`);
  const found = text(policyEvidenceName) === undefined ? {} : objectsIn(path, text);
  const { known } = found;
  const pods = new Map(
    (known?.objects.pods ?? []).map(({ metadata, status }) => [
      `${metadata.namespace}/${metadata.name}`,
      (status.podIPs ?? []).map(({ ip }) => ip),
    ]),
  );
  const read = readInputs(inputs);
  const node = new BundledNode({ read, heldText: held, owners: ownersIn(text(ownersName)), pods, ports: portsIn(text(bridgePortsName)) });
  return { path, node, isSteady: read.steady, ...found };
}

/** The objects of the cluster; flows can be traced without them. */
function objectsIn(path: string, textOf: (name: string) => string | undefined): Pick<ReadBundle, 'known' | 'lack'> {
  try {
    return { known: objectsOf(path, textOf) };
  } catch (thrown) {
    const error = SeineError.from(thrown, 'read the objects');
    if (error.code !== 'INVALID_INPUT') throw error;
    return { lack: error.rawMessage };
  }
}

function ownersIn(text: string | undefined): readonly string[] {
  if (text === undefined) return [];
  try {
    return ownersSchema.parse(JSON.parse(text)).items.map(({ owner }) => owner);
  } catch {
    return []; // names of owners are not needed for the verdict
  }
}

const portSchema = z.object({ number: z.number(), name: z.string() });

/** Names of ports as `ovs-ofctl --names` prints them. They are not needed for the verdict: a line that cannot be read is left out. */
function portsIn(text = ''): ReadonlyMap<number, string> {
  return new Map(
    text.split('\n').flatMap((line) => {
      try {
        const { number, name } = portSchema.parse(JSON.parse(line));
        return [[number, quotedName(name)] as const];
      } catch {
        return [];
      }
    }),
  );
}
