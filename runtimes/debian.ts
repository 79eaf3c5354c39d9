import { readdir, readFile } from 'node:fs/promises'
import { ownVariables, runProcess, systemEnvironment } from '../lib/child-process.ts'

/**
 * This machine's package sources for one Debian suite, in the one-line or the stanza format, from /etc/apt (a closed network has
 * its mirror there); empty when the machine runs another distribution. Third-party sources are left out: the suite of a
 * source must be the distribution's own.
 */
export async function packageSources(suite: string, folder = '/etc/apt'): Promise<string[]> {
  const parts = await readdir(`${folder}/sources.list.d`).catch(() => [])
  const files = [`${folder}/sources.list`, ...parts.sort().map(name => `${folder}/sources.list.d/${name}`)]
  const sources: string[] = []
  for (const file of files) {
    const text = await readFile(file, 'utf8').catch(() => '')
    sources.push(...(file.endsWith('.sources') ? stanzas(text, suite) : lines(text, suite)))
  }
  return sources
}

function lines(text: string, suite: string): string[] {
  return text.split('\n').filter(line => {
    const [type, ...rest] = line
      .trim()
      .replace(/\[[^\]]*\]/, '')
      .split(/\s+/)
    return type === 'deb' && rest[1] !== undefined && own(rest[1], suite)
  })
}

function stanzas(text: string, suite: string): string[] {
  return text
    .split(/\n\s*\n/)
    .map(stanza =>
      stanza
        .split('\n')
        .filter(line => line.trim() && !line.startsWith('#'))
        .join('\n'),
    )
    .filter(stanza => {
      const suites = /^Suites:\s*(.+)$/m.exec(stanza)?.[1]?.trim().split(/\s+/) ?? []
      return suites.some(name => own(name, suite)) && !/^Enabled:\s*no/im.test(stanza)
    })
}

function own(name: string, suite: string): boolean {
  return [suite, `${suite}-updates`, `${suite}-security`].includes(name)
}

/** The machine's settings for package sources (proxies, certificate files), as options of apt. */
export async function transportOptions(): Promise<string[]> {
  const { stdout } = await runProcess('apt-config', ['dump', 'Acquire'], {
    env: { ...systemEnvironment, ...ownVariables(['APT_CONFIG']) },
  }).catch(() => ({ stdout: '' }))
  return stdout
    .split('\n')
    .filter(line => /^Acquire::https?::.*(Proxy|CaInfo|CaPath|SslCert|SslKey)/i.test(line) && !line.endsWith('"";'))
}
