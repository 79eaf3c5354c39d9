import { createHash } from 'node:crypto'
import { type PushReader, readBitbucketPush, readGitlabPush, readHubPush, readPushByShape } from './pushes.ts'

/** Header names in lower case, as Node gives them. */
export type DeliveryHeaders = Readonly<Record<string, string | string[] | undefined>>

export interface Provider {
  name: 'gitea' | 'forgejo' | 'gogs' | 'gitlab' | 'bitbucket' | 'github' | 'unknown'
  /** The header with the event; it also identifies the provider. */
  eventHeader: string
  /** The value of that header for a push. */
  pushEvent: string
  /** Headers with the id of the delivery; the first that is present counts. */
  deliveryHeaders: readonly string[]
  read: PushReader
}

/** In the order in which they are checked: the first three send GitHub's headers as well. */
const providers: readonly Provider[] = [
  {
    name: 'forgejo',
    eventHeader: 'x-forgejo-event',
    pushEvent: 'push',
    deliveryHeaders: ['x-forgejo-delivery', 'x-gitea-delivery'],
    read: readHubPush,
  },
  {
    name: 'gitea',
    eventHeader: 'x-gitea-event',
    pushEvent: 'push',
    deliveryHeaders: ['x-gitea-delivery'],
    read: readHubPush,
  },
  {
    name: 'gogs',
    eventHeader: 'x-gogs-event',
    pushEvent: 'push',
    deliveryHeaders: ['x-gogs-delivery'],
    read: readHubPush,
  },
  {
    name: 'gitlab',
    eventHeader: 'x-gitlab-event',
    pushEvent: 'Push Hook',
    deliveryHeaders: ['webhook-id', 'idempotency-key', 'x-gitlab-event-uuid'],
    read: readGitlabPush,
  },
  {
    name: 'bitbucket',
    eventHeader: 'x-event-key',
    pushEvent: 'repo:push',
    deliveryHeaders: ['x-request-uuid'],
    read: readBitbucketPush,
  },
  {
    name: 'github',
    eventHeader: 'x-github-event',
    pushEvent: 'push',
    deliveryHeaders: ['x-github-delivery'],
    read: readHubPush,
  },
]

const unknown: Provider = {
  name: 'unknown',
  eventHeader: '',
  pushEvent: 'push',
  deliveryHeaders: [],
  read: readPushByShape,
}

/** The provider of a delivery, by its headers. */
export function providerOf(headers: DeliveryHeaders): Provider {
  return providers.find(({ eventHeader }) => headerText(headers, eventHeader)) ?? unknown
}

/** The event, in the provider's spelling; a delivery of an unknown provider is taken for a push. */
export function eventOf(provider: Provider, headers: DeliveryHeaders): string {
  return (headerText(headers, provider.eventHeader) ?? provider.pushEvent).slice(0, 100)
}

/** The provider's id of the delivery, which stays the same when it is sent again; without one the SHA-256 of the body. */
export function deliveryIdOf(provider: Provider, headers: DeliveryHeaders, body: Buffer): string {
  const id = provider.deliveryHeaders.map(header => headerText(headers, header)).find(Boolean)
  return id && id.length <= 255
    ? id
    : createHash('sha256')
        .update(id ?? body)
        .digest('hex')
}

export function headerText(headers: DeliveryHeaders, name: string): string | undefined {
  const value = headers[name]
  return (Array.isArray(value) ? value.join(', ') : value) || undefined
}
