import { render } from 'preact';
import { SimulatorView } from './simulator/simulator-view.tsx';

/** The simulator without a cluster: static files on any web server. */
const page = document.getElementById('page');
if (page) {
  page.replaceChildren();
  render(
    <>
      <header>
        <a class="brand" href="?">
          Seine
        </a>
      </header>
      <main id="main" tabindex={-1}>
        <SimulatorView />
      </main>
    </>,
    page,
  );
}
