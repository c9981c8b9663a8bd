import type { EventPoster } from '../../../kubernetes/client/events.ts';
import type { PeerSource } from '../../../kubernetes/resources/peer-source.ts';
import { isReportingNode } from '../../../kubernetes/resources/reporting-node.ts';
import type { ServiceResult, ServiceSubscriber } from '../service-changes.ts';

/** Maximum length of an event's note in Kubernetes. */
const EVENT_TEXT_MAX = 1_000;

interface UnservedEventsOptions {
  readonly nodeName: string;
  readonly peers: PeerSource;
  readonly events: Pick<EventPoster, 'post'>;
}

/** Warns the owner of a Service that is not served as specified, with an event that one node of the cluster posts. */
export class UnservedEvents implements ServiceSubscriber {
  readonly #options: UnservedEventsOptions;

  constructor(options: UnservedEventsOptions) {
    this.#options = options;
  }

  compared({ service, objections }: ServiceResult): void {
    const { nodeName, peers, events } = this.#options;
    if (service === undefined || objections.length === 0 || !isReportingNode(service.uid, nodeName, peers)) return;
    const { uid, namespace, name } = service;
    events.post({
      type: 'Warning',
      reason: 'NotServedAsSpecified',
      message: `the Service is served only in part: ${objections.join('; ')}`.slice(0, EVENT_TEXT_MAX),
      about: { apiVersion: 'v1', kind: 'Service', namespace, name, uid },
    });
  }
}
