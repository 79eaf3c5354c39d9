import { createHmac, randomUUID } from 'node:crypto'

export const providers = ['github', 'gitlab', 'gitea', 'forgejo', 'gogs', 'bitbucket'] as const
export type Provider = (typeof providers)[number]

export interface Push {
  cloneUrl: string
  /** Whole ref, for example refs/heads/main. */
  ref: string
  before: string
  /** 40 zeros when the branch was deleted. */
  after: string
  secret?: string
  deliveryId?: string
}

export interface Event {
  headers: Record<string, string>
  body: string
}

export const noCommit = '0'.repeat(40)

/** What a provider sends about a push: the fields that its documentation promises, signed as it signs. */
export function pushEvent(provider: Provider, push: Push): Event {
  const body = JSON.stringify(bodies[provider](push))
  return {
    headers: { 'content-type': 'application/json', ...headers[provider](body, push, push.deliveryId ?? randomUUID()) },
    body,
  }
}

const hmac = (secret: string, body: string) => createHmac('sha256', secret).update(body).digest('hex')

const repositoryOf = ({ cloneUrl }: Push) => {
  const path = new URL(cloneUrl).pathname.slice(1).replace(/\.git$/, '')
  const [owner = 'owner', name = owner] = path.split('/')
  return {
    id: 4711,
    name,
    full_name: `${owner}/${name}`,
    private: true,
    owner: { login: owner, id: 12 },
    clone_url: cloneUrl,
  }
}

const githubLike = (push: Push) => ({
  ref: push.ref,
  before: push.before,
  after: push.after,
  created: push.before === noCommit,
  deleted: push.after === noCommit,
  forced: false,
  commits: [],
  repository: repositoryOf(push),
  pusher: { name: 'pusher', email: 'pusher@example.com' },
})

const bodies: Record<Provider, (push: Push) => unknown> = {
  github: githubLike,
  gitea: githubLike,
  forgejo: githubLike,
  gogs: githubLike,
  gitlab: push => ({
    object_kind: push.ref.startsWith('refs/tags/') ? 'tag_push' : 'push',
    event_name: 'push',
    ref: push.ref,
    before: push.before,
    after: push.after,
    checkout_sha: push.after === noCommit ? null : push.after,
    project: { id: 15, path_with_namespace: repositoryOf(push).full_name, git_http_url: push.cloneUrl },
    commits: [],
    total_commits_count: 0,
  }),
  bitbucket: push => ({
    repository: {
      full_name: repositoryOf(push).full_name,
      links: { html: { href: push.cloneUrl.replace(/\.git$/, '') } },
    },
    push: { changes: [{ old: bitbucketRef(push, push.before), new: bitbucketRef(push, push.after), forced: false }] },
  }),
}

function bitbucketRef({ ref }: Push, commit: string) {
  const type = ref.startsWith('refs/tags/') ? 'tag' : 'branch'
  return commit === noCommit ? null : { type, name: ref.replace(/^refs\/(heads|tags)\//, ''), target: { hash: commit } }
}

type Headers = (body: string, push: Push, deliveryId: string) => Record<string, string>

const github: Headers = (body, { secret }, deliveryId) => ({
  'x-github-event': 'push',
  'x-github-delivery': deliveryId,
  ...(secret ? { 'x-hub-signature-256': `sha256=${hmac(secret, body)}` } : {}),
})

/** Gitea and its relatives send GitHub's headers in addition to their own. */
const relative =
  (name: string): Headers =>
  (body, push, deliveryId) => ({
    ...github(body, push, deliveryId),
    [`x-${name}-event`]: 'push',
    [`x-${name}-delivery`]: deliveryId,
    ...(push.secret ? { [`x-${name}-signature`]: hmac(push.secret, body) } : {}),
  })

const headers: Record<Provider, Headers> = {
  github,
  gitea: relative('gitea'),
  forgejo: relative('forgejo'),
  gogs: relative('gogs'),
  gitlab: (_, { ref, secret }, deliveryId) => ({
    'x-gitlab-event': ref.startsWith('refs/tags/') ? 'Tag Push Hook' : 'Push Hook',
    'x-gitlab-event-uuid': deliveryId,
    'idempotency-key': deliveryId,
    ...(secret ? { 'x-gitlab-token': secret } : {}),
  }),
  bitbucket: (body, { secret }, deliveryId) => ({
    'x-event-key': 'repo:push',
    'x-request-uuid': deliveryId,
    'x-attempt-number': '1',
    ...(secret ? { 'x-hub-signature': `sha256=${hmac(secret, body)}` } : {}),
  }),
}
