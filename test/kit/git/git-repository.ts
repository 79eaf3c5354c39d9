import { execFile } from 'node:child_process'
import { chmod, mkdir, readFile, rm, symlink, writeFile } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { promisify } from 'node:util'
import { type Provider, pushEvent } from './git-events.ts'

const run = promisify(execFile)

/** Content by path: text or bytes, null = removed, `{link}` = a symbolic link. */
export type Files = Record<string, string | Buffer | null | { link: string }>

export interface Hook {
  url: string
  provider: Provider
  secret?: string
  /** Id of the next delivery; drawn when left out. */
  deliveryId?: string
}

export interface Pushed {
  commit: string
  before: string
  branch: string
  /** What the webhook answered; null without one. */
  reply: { status: number; text: string } | null
}

/** One repository on a test server, and a working copy that pushes to it over http as a person would. */
export class TestRepository {
  /** The webhook of the repository, called after every push. */
  hook: Hook | null = null
  #turn: Promise<unknown> = Promise.resolve()
  #last: readonly [before: string, after: string, ref: string] = ['', '', '']

  constructor(
    /** The bare repository on disk. */
    readonly path: string,
    private readonly copy: string,
    /** The address that others fetch from. */
    readonly url: string,
    private readonly pushUrl: () => string,
  ) {}

  async create(): Promise<this> {
    await run('git', ['init', '-q', '--bare', '-b', 'main', this.path], { env: gitEnv })
    await run('git', ['init', '-q', '-b', 'main', this.copy], { env: gitEnv })
    await this.git(['config', 'http.receivepack', 'true'])
    // As forges do it: the hook says what was pushed, the server calls the webhook.
    const hook = join(this.path, 'hooks', 'post-receive')
    await mkdir(dirname(hook), { recursive: true })
    await writeFile(hook, '#!/bin/sh\ncat >> "$GIT_DIR/pushed"\n')
    await chmod(hook, 0o755)
    return this
  }

  /** Commits these changes on a branch and pushes it. Pushes of one repository come one after the other. */
  push(files: Files, { branch = 'main', force = false } = {}): Promise<Pushed> {
    const pushed = this.#turn.then(() => this.#push(files, branch, force))
    this.#turn = pushed.catch(() => {})
    return pushed
  }

  /** Git on the repository itself, for what no push can do (`fast-import` of thousands of files). */
  async git(args: string[], input?: string | Buffer): Promise<string> {
    const running = run('git', ['-C', this.path, ...args], { env: gitEnv })
    running.child.stdin?.end(input)
    return (await running).stdout.trim()
  }

  async #push(files: Files, branch: string, force: boolean): Promise<Pushed> {
    const git = (...args: string[]) =>
      run('git', ['-C', this.copy, ...args], { env: gitEnv, maxBuffer: 64 * 1024 ** 2 })
    const known = await git('rev-parse', '-q', '--verify', `refs/heads/${branch}`).catch(() => null)
    if (known) await git('checkout', '-q', branch)
    else await git('checkout', '-q', '-b', branch).catch(() => git('symbolic-ref', 'HEAD', `refs/heads/${branch}`))
    for (const [path, content] of Object.entries(files)) await place(join(this.copy, path), content)
    await git('add', '-A', '-f')
    await git('commit', '-q', '--allow-empty', ...(force && known ? ['--amend'] : []), '-m', 'A change')
    await git('push', '-q', ...(force ? ['--force'] : []), this.pushUrl(), `${branch}:${branch}`)
    const [before = '', commit = '', ref = ''] = await this.#received()
    this.#last = [before, commit, ref]
    return { commit, before, branch, reply: this.hook ? await this.deliver() : null }
  }

  async #received(): Promise<string[]> {
    const file = join(this.path, 'pushed')
    const lines = (await readFile(file, 'utf8')).trim().split('\n')
    await rm(file)
    return lines.at(-1)!.split(' ')
  }

  /** Calls the webhook about the last push, as the provider's button for it does. */
  async deliver(): Promise<NonNullable<Pushed['reply']>> {
    if (!this.hook) throw new Error('This repository has no webhook.')
    const { url, provider, ...signed } = this.hook
    const [before, after, ref] = this.#last
    const event = pushEvent(provider, { cloneUrl: this.url, before, after, ref, ...signed })
    const answer = await fetch(url, { method: 'POST', ...event })
    return { status: answer.status, text: await answer.text() }
  }
}

/** No configuration of this machine: commits must be the same everywhere. */
const gitEnv = {
  PATH: process.env.PATH,
  GIT_CONFIG_NOSYSTEM: '1',
  GIT_CONFIG_GLOBAL: '/dev/null',
  GIT_TERMINAL_PROMPT: '0',
  GIT_AUTHOR_NAME: 'Pusher',
  GIT_AUTHOR_EMAIL: 'pusher@example.com',
  GIT_COMMITTER_NAME: 'Pusher',
  GIT_COMMITTER_EMAIL: 'pusher@example.com',
}

async function place(path: string, content: Files[string]): Promise<void> {
  await rm(path, { force: true, recursive: true })
  if (content === null) return
  await mkdir(dirname(path), { recursive: true })
  if (typeof content === 'object' && !Buffer.isBuffer(content)) await symlink(content!.link, path)
  else await writeFile(path, content)
}
