import test from 'ava'
import {
  dependencyFile,
  type Language,
  languageOfMain,
  languageOfRuntime,
  languages,
  offered,
  runtimes,
} from '../../policy/runtimes.ts'

test('the extension of MAIN names the language, as contract 5.13 lists them', t => {
  const table: Record<string, string> = {
    javascript: 'js jsx mjs cjs mjsx cjsx',
    typescript: 'ts tsx mts cts mtsx ctsx',
    python: 'py',
    java: 'java jar',
    elixir: 'ex exs',
    go: 'go',
    rust: 'rs',
    ruby: 'rb',
    php: 'php',
    dotnet: 'cs',
    static: 'html css',
  }
  for (const [language, extensions] of Object.entries(table)) {
    for (const extension of extensions.split(' '))
      t.is(languageOfMain(`src/main.${extension}`), language as never, extension)
  }
  for (const main of ['README', 'a.txt', 'js', 'a.js.bak']) t.is(languageOfMain(main), null, main)
})

test('every value of RUNTIME determines the language, in any case', t => {
  const words =
    'nodejs javascript typescript python dotnet csharp c# java elixir rust ruby php go golang static html'.split(' ')
  t.deepEqual(words.map(languageOfRuntime), [
    'javascript',
    'javascript',
    'typescript',
    'python',
    'dotnet',
    'dotnet',
    'dotnet',
    'java',
    'elixir',
    'rust',
    'ruby',
    'php',
    'go',
    'go',
    'static',
    'static',
  ])
  t.is(languageOfRuntime('NodeJS'), 'javascript')
  t.is(languageOfRuntime('cobol'), null)
})

test('each extension and each value belongs to one language only', t => {
  for (const list of ['extensions', 'aliases'] as const) {
    const all = languages.flatMap(language => [...runtimes[language][list]])
    t.is(new Set(all).size, all.length, list)
  }
})

test('VERSION is one of the table or refused', t => {
  t.is(offered('javascript', 'recommended'), '22')
  t.is(offered('javascript', 'LATEST'), '24')
  t.is(offered('javascript', '22'), '22')
  t.is(offered('javascript', '22.23.3'), '22')
  t.is(offered('javascript', '22.0.0'), null)
  t.is(offered('python', '3'), '3.11')
  t.is(offered('python', '3.1'), null)
  t.is(offered('javascript', '1'), null)
  t.is(offered('typescript', '20'), null)
})

/** Versions, the newest first; what `recommended` is; the files that name dependencies, with `!` where a program needs one (contract 5.14). */
const rows: Record<Language, [versions: string, recommended: string, files: string]> = {
  javascript: ['24 22 20', '22', 'package.json'],
  typescript: ['24 22', '22', 'package.json'],
  python: ['3.11', '3.11', 'requirements.txt'],
  java: ['25 21 17', '21', 'pom.xml *.jar'],
  elixir: ['1.18 1.17', '1.17', 'mix.exs'],
  go: ['1.25 1.24', '1.24', 'go.mod !'],
  rust: ['1', '1', 'Cargo.toml !'],
  ruby: ['3.4 3.3', '3.3', 'Gemfile'],
  php: ['8.4 8.3', '8.3', 'composer.json'],
  dotnet: ['9.0 8.0', '8.0', '*.csproj !'],
  static: ['1', '1', ''],
}

test('every language has its agreed versions and dependency files, and port 80', t => {
  t.is(languages.length, 11)
  t.deepEqual(languages.slice().sort(), Object.keys(rows).sort() as Language[])
  for (const [language, [versions, recommended, files]] of Object.entries(rows) as [
    Language,
    [string, string, string],
  ][]) {
    const row = runtimes[language]
    t.is(row.language, language)
    t.deepEqual(row.versions, versions.split(' '), language)
    t.deepEqual([row.recommended, row.latest], [recommended, versions.split(' ')[0]!], language)
    t.is([...row.dependencyFiles, ...(row.dependenciesRequired ? ['!'] : [])].join(' '), files, language)
    t.is(row.defaultPort, 80)
  }
})

test('every row has an image without blanks', t => {
  for (const language of languages) {
    const row = runtimes[language]
    t.regex(row.image(row.latest), /^[a-z0-9./_-]+:[\w.-]+$/)
    t.regex(row.buildImage(row.latest), /^[a-z0-9./_-]+:[\w.-]+$/)
    t.is(row.official(row.latest) !== null, row.image(row.latest).startsWith('berth/'))
  }
})

test('without a dependency file nothing is installed', t => {
  for (const language of languages) t.is(runtimes[language].install({ files: ['main', 'README.md'], main: null }), null)
})

test('the dependency file is found by name or extension', t => {
  t.is(dependencyFile('javascript', ['a.js', 'package.json']), 'package.json')
  t.is(dependencyFile('dotnet', ['Program.cs', 'Shop.csproj']), 'Shop.csproj')
  t.is(dependencyFile('java', ['lib.jar']), 'lib.jar')
  t.is(dependencyFile('java', ['lib.jar', 'pom.xml']), 'pom.xml')
  t.is(dependencyFile('go', ['main.go']), null)
})

test('every other language with a dependency file has an install step that creates what is mounted', t => {
  const files: Record<string, string> = {
    javascript: 'package.json',
    typescript: 'package.json',
    python: 'requirements.txt',
    java: 'pom.xml',
    elixir: 'mix.exs',
    go: 'go.mod',
    rust: 'Cargo.toml',
    ruby: 'Gemfile',
    php: 'composer.json',
    dotnet: 'a.csproj',
  }
  for (const [language, file] of Object.entries(files)) {
    const row = runtimes[language as keyof typeof runtimes]
    const step = row.install({ files: [file], main: null })
    t.truthy(step, language)
    t.true(step?.includes(row.dependencies!.from), language)
  }
})

test('a manifest without packages and scripts of an installation requests nothing', t => {
  const ofNode = (language: 'javascript' | 'typescript', manifest: unknown, ...names: string[]) =>
    runtimes[language].requestsNothing!(typeof manifest === 'string' ? manifest : JSON.stringify(manifest), names)
  for (const empty of [
    {},
    { type: 'module', name: 'a', engines: { node: '22' }, scripts: { start: 'node a.js', build: 'x', preview: 'x' } },
    { dependencies: {}, peerDependencies: {}, workspaces: [] },
  ])
    for (const language of ['javascript', 'typescript'] as const) t.true(ofNode(language, empty), JSON.stringify(empty))
  t.true(ofNode('javascript', '\ufeff{}'))
  const tools = { devDependencies: { tsx: '4' } }
  t.true(ofNode('javascript', tools), 'what is for development is left out')
  t.false(ofNode('typescript', tools))
  for (const name of ['dependencies', 'optionalDependencies', 'peerDependencies'])
    t.false(ofNode('javascript', { [name]: { x: '1' } }), name)
  for (const name of ['preinstall', 'install', 'postinstall', 'prepublish', 'preprepare', 'prepare', 'postprepare'])
    t.false(ofNode('javascript', { scripts: { [name]: 'x' } }), name)
  t.false(ofNode('javascript', {}, 'binding.gyp'), 'npm would build it')
  t.false(ofNode('javascript', {}, 'pnpm-lock.yaml', 'pnpm-workspace.yaml'), 'its folders have manifests of their own')
  t.true(ofNode('javascript', {}, 'pnpm-lock.yaml'))
  t.false(ofNode('javascript', { workspaces: ['a'] }))
  for (const wrong of ['', '{', '[]', 'null', '{"dependencies":"x"}', '{"dependencies":null}', '{"scripts":"x"}'])
    t.false(ofNode('javascript', wrong), `npm reports what is wrong with ${wrong}`)
})

test('a list of requirements without any requests nothing', t => {
  const { requestsNothing } = runtimes.python
  for (const empty of ['', '\n\n', '# none\n', '  \t\r\n   # none']) t.true(requestsNothing!(empty, []), empty)
  for (const full of ['six', '# six\nsix', '-r other.txt', '--index-url https://x', '# goes on \\\nsix', '.'])
    t.false(requestsNothing!(full, []), full)
})

test('a Gemfile of comments requests nothing, unless bundler reads another file or may not read it', t => {
  const { requestsNothing } = runtimes.ruby
  for (const empty of ['', '\n\n', '# none\n', '  # a\r\n\r\n\t\n#b'])
    t.true(requestsNothing!(empty, ['Gemfile']), empty)
  t.false(requestsNothing!('', ['Gemfile', 'gems.rb']))
  for (const full of [
    'gem "a"',
    '# a\ngem "a"',
    'source "https://x"',
    '# coding: none',
    '#\rgem "a"',
    '=begin\n=end',
    '\ufeff#',
    '\0',
  ])
    t.false(requestsNothing!(full, ['Gemfile']), full)
})

test('languages whose install step also makes something else always run it', t => {
  for (const language of languages.filter(name => !['javascript', 'typescript', 'python', 'ruby'].includes(name)))
    t.is(runtimes[language].requestsNothing, undefined, language)
})

test('the lock file decides the package manager, and only TypeScript installs its development tools', t => {
  const install = (language: 'javascript' | 'typescript', ...files: string[]) =>
    runtimes[language].install({ files: ['package.json', ...files], main: 'index.js' })!
  t.regex(install('javascript', 'package-lock.json'), /^npm ci --omit=dev /)
  t.regex(install('javascript'), /^npm install --omit=dev /)
  t.regex(install('javascript', 'pnpm-lock.yaml'), /pnpm@9\.15\.9 .*pnpm\.cjs install --frozen-lockfile .*--prod/)
  t.regex(install('javascript', 'yarn.lock'), /yarn@1\.22\.22 .*yarn\.js install --frozen-lockfile/)
  t.regex(install('typescript', 'package-lock.json'), /^npm ci --no-audit/)
})

test('MAIN is one shell word, whatever it contains', t => {
  t.is(runtimes.javascript.start('index.js'), 'exec node index.js')
  t.is(runtimes.javascript.start("a b';rm.js"), `exec node 'a b'\\'';rm.js'`)
  t.is(runtimes.python.start('-c.py'), 'exec python3 ./-c.py')
})

test('a Java class is named after its place in the project', t => {
  t.regex(runtimes.java.start('src/main/java/shop/App.java'), /exec java -cp '[^']+' shop\.App;/)
  t.is(runtimes.java.start('app.jar'), 'exec java -jar app.jar')
})

test('a static site hides its configuration file under every accepted name', t => {
  const start = runtimes.static.start('index.html', ['other.config'])
  for (const name of ['berth.app', 'berth.config', 'other.config'])
    t.true(start.includes(`location = "/${name}" { return 404; }`))
})
