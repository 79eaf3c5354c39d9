import { chmod, mkdir, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import test from 'ava'
import { runProcess, systemEnvironment } from '../../lib/child-process.ts'
import { withToolFolders } from '../../policy/runtimes/tool-folders.ts'
import { languages, runtimes } from '../../policy/runtimes.ts'

test('of what builds leave only what tools compare by content or version is left to the next one', t => {
  const declared = languages.flatMap(language => {
    const { toolFolders } = runtimes[language]
    return toolFolders ? [[language, ...toolFolders].join(' ')] : []
  })
  t.deepEqual(declared, [
    'java /tmp/.m2/repository',
    'elixir /tmp/.hex/packages',
    'go /tmp/go-cache /tmp/go/pkg/mod',
    'rust /tmp/.cargo/registry /tmp/.cargo/git /app/.target',
    'ruby /app/.berth-cache',
    'dotnet /tmp/.nuget/packages',
  ])
  for (const language of languages) {
    const { toolFolders = [], install, dependencyFiles } = runtimes[language]
    const files = dependencyFiles.map(name => name.replace('*', 'x'))
    for (const folder of toolFolders) {
      // Plain words, as the step names them; the folders of NuGet and of Maven derive from HOME and an option.
      t.regex(folder, /^\/(tmp|app)\/[\w./-]+$/)
      if (folder.startsWith('/app/')) t.true(install({ files, main: 'main' })?.includes(`=${folder} `), folder)
      t.notRegex(withToolFolders(install({ files, main: 'main' })!, toolFolders), /undefined|null\n/)
    }
  }
})

test('folders of tools among the files of the application are removed before and after a build', t => {
  const lines = withToolFolders('build', ['/tmp/a', '/app/.target']).split('\n')
  t.deepEqual(
    lines.filter(line => line.startsWith('rm ')),
    ['rm -rf /app/.target', 'rm -rf /app/.target'],
  )
  t.is(lines[0], 'rm -rf /app/.target')
  t.true(lines.lastIndexOf('rm -rf /app/.target') > lines.indexOf('( build'))
  t.notRegex(withToolFolders('build', ['/tmp/a']), /rm -rf \/app/)
})

/** As Cargo: what it has built stays in `deps`, and is linked into `release` when it is missing there; nothing is ever removed. */
const cargo = `#!/bin/sh
mkdir -p .target/release/deps
for name in $(cat Cargo.toml); do
  [ -e ".target/release/deps/$name" ] || { echo "$name" > ".target/release/deps/$name"; chmod +x ".target/release/deps/$name"; }
  ln -f ".target/release/deps/$name" ".target/release/$name"
done
`

test('a program in Rust that was renamed or removed is not served from what the last build left', async t => {
  const folder = await mkdtemp(join(tmpdir(), 'berth-cargo-'))
  t.teardown(() => rm(folder, { recursive: true }))
  const [bin, app] = [join(folder, 'bin'), join(folder, 'app')]
  for (const path of [bin, app]) await mkdir(path)
  await writeFile(join(bin, 'cargo'), cargo)
  await chmod(join(bin, 'cargo'), 0o755)
  const env = { ...systemEnvironment, PATH: `${bin}:${systemEnvironment.PATH}` }
  const install = runtimes.rust.install({ files: ['Cargo.toml'], main: null })!
  const served = async (programs: string) => {
    await writeFile(join(app, 'Cargo.toml'), programs)
    await runProcess('sh', ['-c', install], { cwd: app, env })
    return (await readFile(join(app, '.berth/app'), 'utf8')).trim()
  }
  t.is(await served('api'), 'api')
  t.is(await served('server'), 'server', 'renamed')
  t.is(await served('server'), 'server', 'up to date')
  t.is(await served('a b'), 'a')
  t.is(await served('b'), 'b', 'removed')
  await t.throwsAsync(served(''), undefined, 'no program at all')
})
