import { ExplainView } from './explain-view.tsx';
import { parameters, show } from './location.ts';
import { NowView } from './now-view.tsx';
import { ViewLink } from './parts.tsx';
import { PolicyView } from './policy/policy-view.tsx';
import { SimulatorView } from './simulator/simulator-view.tsx';
import { SourceNotice } from './source-notice.tsx';
import { TimelineView } from './timeline-view.tsx';
import { TraceView } from './trace-view.tsx';
import { TrafficView } from './traffic/traffic-view.tsx';

const views = [
  { name: 'now', title: 'Now', View: NowView },
  { name: 'traffic', title: 'Traffic', View: TrafficView },
  { name: 'trace', title: 'Trace', View: TraceView },
  { name: 'policy', title: 'Policy', View: PolicyView },
  { name: 'explain', title: 'Pod, Service, Node', View: ExplainView },
  { name: 'timeline', title: 'Timeline', View: TimelineView },
  { name: 'simulator', title: 'Simulator', View: SimulatorView },
] as const;

/** The page: navigation, and the view that the address names. */
export function App() {
  const name = parameters.value['view'] ?? 'now';
  const { View, title } = views.find((view) => view.name === name) ?? views[0];
  document.title = `${title} – Seine`;
  return (
    <>
      <a
        class="skip"
        href="#main"
        onClick={(event) => {
          event.preventDefault();
          document.getElementById('main')?.focus();
        }}
      >
        Skip to the content
      </a>
      <header>
        <a
          class="brand"
          href="/"
          onClick={(event) => {
            event.preventDefault();
            show({});
          }}
        >
          Seine
        </a>
        <nav aria-label="Views">
          <ul>
            {views.map((view) => (
              <li key={view.name} aria-current={view.name === name ? 'page' : undefined}>
                <ViewLink to={{ view: view.name }}>{view.title}</ViewLink>
              </li>
            ))}
          </ul>
        </nav>
      </header>
      <main id="main" tabindex={-1}>
        <SourceNotice />
        <View />
      </main>
    </>
  );
}
