import { signal } from '@preact/signals';
import type { SimulatedSummary } from '../../answers/simulator.ts';
import { count } from '../texts.ts';
import { Editor } from './editor.tsx';
import { cancelLoad, loadedObjects, loadObjects } from './loaded-objects.ts';

const example = `apiVersion: apps/v1
kind: Deployment
metadata: {name: web, namespace: shop}
spec:
  replicas: 2
  template:
    metadata: {labels: {app: web}}
    spec: {containers: [{name: web, ports: [{containerPort: 8080}]}]}
---
apiVersion: apps/v1
kind: StatefulSet
metadata: {name: db, namespace: shop}
spec:
  replicas: 1
  template:
    metadata: {labels: {app: db}}
    spec: {containers: [{name: db, ports: [{name: sql, containerPort: 5432}]}]}
---
apiVersion: v1
kind: Service
metadata: {name: db, namespace: shop}
spec:
  selector: {app: db}
  ports: [{port: 5432, targetPort: sql}]
---
apiVersion: networking.k8s.io/v1
kind: NetworkPolicy
metadata: {name: db-clients, namespace: shop}
spec:
  podSelector: {matchLabels: {app: db}}
  ingress:
    - from: [{podSelector: {matchLabels: {app: web}}}]
      ports: [{port: sql}]
`;

/** Text of the user's objects: kept while another view is open. */
const text = signal(example);

/** Objects that the user writes or opens. */
export function OwnObjects() {
  const open = (files: FileList | null): void => {
    if (files && files.length > 0) void loadObjects([...files].map((file) => ({ name: file.name, content: file })));
  };
  return (
    <form
      class="card"
      onSubmit={(event) => {
        event.preventDefault();
        void loadObjects([{ name: 'objects', content: text.value }]);
      }}
    >
      <Editor
        id="objects"
        label="Objects, as YAML or JSON"
        rows={14}
        value={text.value}
        onInput={(value) => {
          text.value = value;
        }}
      />
      <div class="actions">
        <button type="submit" class="primary">
          Simulate
        </button>
        <div class="field file">
          <label for="files">or open files: manifests, or the output of kubectl get -o yaml or -o json</label>
          <input id="files" type="file" multiple accept=".yaml,.yml,.json" onChange={(event) => open(event.currentTarget.files)} />
        </div>
      </div>
    </form>
  );
}

/** State of the objects: loading, loaded, or the reason why they cannot be read. */
export function LoadedSummary() {
  const loaded = loadedObjects.value;
  if (!loaded) return <p class="quiet">No objects are loaded yet.</p>;
  if (loaded.state === 'loading')
    return (
      <p role="status">
        Loading …{' '}
        <button type="button" onClick={cancelLoad}>
          Cancel
        </button>
      </p>
    );
  if (loaded.state === 'failed' || !loaded.summary)
    return (
      <div class="notice warn" role="alert">
        <h2>The objects cannot be simulated</h2>
        <p>{loaded.failure}</p>
      </div>
    );
  return <p role="status">{summaryText(loaded.summary)}</p>;
}

function summaryText({ nodes, pods, services, policies, ignored, milliseconds }: SimulatedSummary): string {
  const parts = [count(nodes, 'node'), count(pods, 'pod'), count(services, 'Service'), `${policies.toLocaleString('en')} ${policies === 1 ? 'policy' : 'policies'}`];
  const rest = ignored.length === 0 ? '' : ` Without effect on packets: ${ignored.join(', ')}.`;
  return `Loaded in ${Math.round(milliseconds).toLocaleString('en')} ms: ${parts.join(', ')}.${rest}`;
}
