import { readdirSync, readFileSync } from 'node:fs'
import test from 'ava'
import { portDefaults } from '../cli/ports.ts'

const settings = readFileSync('docs/settings.md', 'utf8')

test('every setting that the platform reads is documented', t => {
  const source = readdirSync('policy')
    .filter(name => name.endsWith('.ts'))
    .map(name => readFileSync(`policy/${name}`, 'utf8'))
    .join('\n')
  const read = [...source.matchAll(/\benv\.([A-Z][A-Z0-9_]*)|\benv, '([A-Z][A-Z0-9_]*)'/g)].map(
    ([, dotted, quoted]) => (dotted ?? quoted) as string,
  )
  const names = new Set([...read, ...Object.keys(portDefaults)])
  t.true(names.size > 40)
  t.deepEqual(
    [...names].filter(name => !settings.includes(`\`${name}\``)),
    [],
  )
})

test('what the documentation points to is there', t => {
  for (const page of ['README.md', 'ARCHITECTURE.md', 'CONTRIBUTING.md', 'docs/settings.md', 'docs/installation.md']) {
    const text = readFileSync(page, 'utf8')
    const folder = page.includes('/') ? 'docs/' : ''
    for (const [, target] of text.matchAll(/\]\(([^)#:]+)\)/g))
      t.notThrows(() => readFileSync(new URL(`../${folder}${target}`, import.meta.url)), `${page} -> ${target}`)
  }
})
