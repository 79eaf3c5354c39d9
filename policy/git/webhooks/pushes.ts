import { z } from 'zod'

/** A push of a branch: what to deploy, and from where. */
export interface Push {
  kind: 'push'
  branch: string
  /** 40 hex. */
  commit: string
  /** http or https, without credentials. */
  cloneUrl: string
}

type PushVerdict =
  | Push
  /** Well-formed, with nothing to deploy. */
  | { kind: 'ignored'; reason: string }
  | { kind: 'skipped'; reason: string; branch: string }
  | { kind: 'refused'; reason: string }

/** `wanted` is the branch in the webhook's address, in lower case. */
export type PushReader = (payload: Record<string, unknown>, branch: string | undefined) => PushVerdict

const maxBranchLength = 256

/** GitHub's payload, which Gitea, Forgejo and Gogs send as well. `commits` is ignored: it is empty in a first push. */
export const readHubPush: PushReader = (payload, branch) => {
  const parsed = hubPush.safeParse(payload)
  if (!parsed.success) return missing(parsed.error)
  const { ref, after, deleted, repository } = parsed.data
  if (deleted) return deletion
  return refPush(ref, after, repository.clone_url, branch, repository.owner ? undefined : 'repository owner')
}

export const readGitlabPush: PushReader = (payload, branch) => {
  const parsed = gitlabPush.safeParse(payload)
  if (!parsed.success) return missing(parsed.error)
  const { ref, after, checkout_sha, project } = parsed.data
  if (checkout_sha === null) return deletion
  const owner = project?.path_with_namespace ?? project?.namespace
  return refPush(ref, after ?? checkout_sha, project?.git_http_url, branch, owner ? undefined : 'repository owner')
}

/** One delivery may contain several references; the first wanted branch is deployed. */
export const readBitbucketPush: PushReader = (payload, branch) => {
  const parsed = bitbucketPush.safeParse(payload)
  if (!parsed.success) return missing(parsed.error)
  const { push, repository } = parsed.data
  const page = repository.links?.html?.href
  const owner = repository.owner ?? repository.workspace ?? repository.full_name?.includes('/')
  const verdicts = push.changes.map(({ new: next }): PushVerdict => {
    if (next === null) return deletion
    const ref = next.type === 'branch' ? `refs/heads/${next.name}` : `refs/tags/${next.name}`
    return refPush(ref, next.target?.hash, page && `${page}.git`, branch, owner ? undefined : 'repository owner')
  })
  const first = (kind: PushVerdict['kind']) => verdicts.find(verdict => verdict.kind === kind)
  return first('push') ?? first('refused') ?? first('skipped') ?? first('ignored') ?? nothing
}

/** For an unknown provider. */
export const readPushByShape: PushReader = (payload, branch) => {
  if ('push' in payload) return readBitbucketPush(payload, branch)
  return 'project' in payload ? readGitlabPush(payload, branch) : readHubPush(payload, branch)
}

const deletion: PushVerdict = { kind: 'ignored', reason: 'a branch or tag was deleted' }
const nothing: PushVerdict = { kind: 'ignored', reason: 'the push changed no branch' }

function refPush(
  ref: string,
  commit: string | undefined,
  cloneUrl: string | undefined,
  wanted: string | undefined,
  lacking: string | undefined,
): PushVerdict {
  if (!ref.startsWith('refs/heads/'))
    return { kind: 'ignored', reason: ref.startsWith('refs/tags/') ? 'a tag was pushed' : 'no branch was pushed' }
  if (commit !== undefined && /^0+$/.test(commit)) return deletion
  const branch = ref.slice('refs/heads/'.length)
  if (branch === '' || branch.length > maxBranchLength || /[\u0000-\u001f\u007f]|\p{Surrogate}/u.test(branch))
    return { kind: 'refused', reason: 'the branch of the push cannot be deployed' }
  if (lacking) return { kind: 'refused', reason: `the payload has no ${lacking}` }
  if (cloneUrl === undefined) return { kind: 'refused', reason: 'the payload has no repository address' }
  const url = plainAddress(cloneUrl)
  if (url === undefined) return { kind: 'refused', reason: 'the repository address is not plain http or https' }
  if (commit === undefined || !/^[0-9a-f]{40}$/i.test(commit))
    return { kind: 'refused', reason: 'the payload has no commit of 40 hex digits' }
  if (wanted !== undefined && branch.toLowerCase() !== wanted)
    return { kind: 'skipped', branch, reason: `the pushed branch ${branch} is not ${wanted}` }
  return { kind: 'push', branch, commit: commit.toLowerCase(), cloneUrl: url }
}

/** An http(s) address without user, password and fragment; undefined for all others. */
function plainAddress(text: string): string | undefined {
  const url = URL.canParse(text) && text.length <= 2048 ? new URL(text) : undefined
  if (!url || !/^https?:$/.test(url.protocol) || url.username || url.password || url.hash) return undefined
  return url.href
}

function missing(error: z.ZodError): PushVerdict {
  const field = error.issues[0]?.path.join('.') || 'push'
  return { kind: 'refused', reason: `the payload has no usable "${field}"` }
}

const text = z.string()
const person = z.looseObject({})

const hubPush = z.object({
  ref: text,
  after: text.optional(),
  deleted: z.boolean().optional(),
  repository: z.object({ clone_url: text.optional(), owner: person.optional() }),
})

const gitlabPush = z.object({
  ref: text,
  after: text.optional(),
  checkout_sha: text.nullish(),
  project: z.object({
    git_http_url: text.optional(),
    path_with_namespace: text.optional(),
    namespace: text.optional(),
  }),
})

const bitbucketPush = z.object({
  push: z.object({
    changes: z
      .array(
        z.object({ new: z.object({ type: text, name: text, target: z.object({ hash: text }).optional() }).nullable() }),
      )
      .max(1000),
  }),
  repository: z.object({
    links: z.object({ html: z.object({ href: text }).optional() }).optional(),
    owner: person.optional(),
    workspace: person.optional(),
    full_name: text.optional(),
  }),
})
