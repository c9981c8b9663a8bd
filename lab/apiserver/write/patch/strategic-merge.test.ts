import { expect, it } from 'vitest';
import { modelSchema } from '../../schema/schema.ts';
import { strategicMerge } from './strategic-merge.ts';

const service = modelSchema('V1Service');
const pod = modelSchema('V1Pod');

it('matches list items by their merge key', () => {
  const original = {
    spec: {
      ports: [
        { port: 80, name: 'http', nodePort: 30_080 },
        { port: 443, name: 'https' },
      ],
    },
  };
  expect(strategicMerge(original, { spec: { ports: [{ port: 80, targetPort: 8080 }, { port: 53 }] } }, service)).toEqual({
    spec: { ports: [{ port: 80, name: 'http', nodePort: 30_080, targetPort: 8080 }, { port: 443, name: 'https' }, { port: 53 }] },
  });
});

it('deletes one item, replaces a list and orders items', () => {
  const original = { spec: { ports: [{ port: 80 }, { port: 443 }] } };
  const remove = { spec: { ports: [{ $patch: 'delete', port: 80 }] } };
  expect(strategicMerge(original, remove, service)).toEqual({ spec: { ports: [{ port: 443 }] } });
  const replace = { spec: { ports: [{ $patch: 'replace' }, { port: 1 }] } };
  expect(strategicMerge(original, replace, service)).toEqual({ spec: { ports: [{ port: 1 }] } });
  const order = { spec: { '$setElementOrder/ports': [{ port: 443 }, { port: 80 }] } };
  expect(strategicMerge(original, order, service)).toEqual({ spec: { ports: [{ port: 443 }, { port: 80 }] } });
});

it('removes fields by null and replaces objects on demand', () => {
  const original = { metadata: { labels: { a: '1', b: '2' } }, spec: { selector: { x: 'y' } } };
  expect(strategicMerge(original, { metadata: { labels: { a: null } } }, service)).toEqual({
    metadata: { labels: { b: '2' } },
    spec: { selector: { x: 'y' } },
  });
  expect(strategicMerge(original, { spec: { selector: { $patch: 'replace', z: '1' } } }, service)).toMatchObject({
    spec: { selector: { z: '1' } },
  });
});

it('adds to sets of scalars and takes from them', () => {
  const original = { metadata: { finalizers: ['a', 'b'] } };
  expect(strategicMerge(original, { metadata: { finalizers: ['b', 'c'] } }, service)).toEqual({
    metadata: { finalizers: ['a', 'b', 'c'] },
  });
  expect(strategicMerge(original, { metadata: { '$deleteFromPrimitiveList/finalizers': ['a'] } }, service)).toEqual({
    metadata: { finalizers: ['b'] },
  });
});

it('keeps only the named members of a union', () => {
  const original = { spec: { volumes: [{ name: 'v', hostPath: { path: '/x' } }] } };
  const patch = { spec: { volumes: [{ name: 'v', emptyDir: {}, $retainKeys: ['name', 'emptyDir'] }] } };
  expect(strategicMerge(original, patch, pod)).toEqual({ spec: { volumes: [{ name: 'v', emptyDir: {} }] } });
});

it('replaces lists that have no merge key', () => {
  const original = { spec: { tolerations: [{ key: 'a' }] } };
  expect(strategicMerge(original, { spec: { tolerations: [{ key: 'b' }] } }, pod)).toEqual({ spec: { tolerations: [{ key: 'b' }] } });
});

it('does not modify the original and rejects an item without its key', () => {
  const original = { spec: { ports: [{ port: 80 }] } };
  strategicMerge(original, { spec: { ports: [{ port: 80, name: 'x' }], type: 'NodePort' } }, service);
  expect(original).toEqual({ spec: { ports: [{ port: 80 }] } });
  expect(() => strategicMerge(original, { spec: { ports: [{ name: 'x' }] } }, service)).toThrow(
    'does not contain declared merge key: port',
  );
});

it('treats __proto__ in a patch as a field, not as the prototype', () => {
  const patch = JSON.parse('{"metadata":{"labels":{"__proto__":"x"}}}') as Record<string, unknown>;
  expect(JSON.stringify(strategicMerge({}, patch, service))).toBe('{"metadata":{"labels":{"__proto__":"x"}}}');
});
