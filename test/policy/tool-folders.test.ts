import test from 'ava'
import { withToolFolders } from '../../policy/runtimes/tool-folders.ts'
import { languages, runtimes } from '../../policy/runtimes.ts'

test('of what builds leave only what tools compare by content or version is left to the next one', t => {
  const declared = languages.flatMap(language => {
    const { toolFolders } = runtimes[language]
    return toolFolders ? [[language, ...toolFolders].join(' ')] : []
  })
  t.deepEqual(declared, [
    'java /tmp/.m2',
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
