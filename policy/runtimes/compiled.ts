import { posix } from 'node:path'
import { fileWord, quotedShell, type Runtime } from './runtime.ts'

/**
 * Compiler output goes to /app/.berth in the build and is mounted at /opt/build. `toolFolders` are what the tools compare by content or
 * version: nothing that is compared by the time of a file alone, such as `obj` of .NET and `target` of Maven, which are built anew.
 */
const dependencies = { from: '.berth', at: '/opt/build' }

/** Folder of Maven in builds, with its settings: where it looks for them by itself. */
export const mavenHome = '/tmp/.m2'

/** A jar runs as it is, a Maven project by the class in MAIN, a single source file by Java's own launcher. */
export const java: Runtime = {
  language: 'java',
  title: 'Java',
  extensions: ['java', 'jar'],
  aliases: ['java'],
  versions: ['25', '21', '17'],
  recommended: '21',
  latest: '25',
  dependencyFiles: ['pom.xml', '*.jar'],
  dependenciesRequired: false,
  defaultPort: 80,
  image: version => `eclipse-temurin:${version}`,
  buildImage: version => `maven:3-eclipse-temurin-${version}`,
  official: () => null,
  install: ({ files }) =>
    files.includes('pom.xml')
      ? `mvn -B -ntp -Dmaven.repo.local=${mavenHome}/repository -DskipTests package dependency:copy-dependencies -DincludeScope=runtime ` +
        '-DoutputDirectory=/app/.berth/lib && mkdir -p .berth/lib && cp -r target/classes .berth/classes && rm -rf target'
      : null,
  // Not its settings: those of a build are its own.
  toolFolders: [`${mavenHome}/repository`],
  dependencies,
  start: main => {
    if (posix.extname(main) === '.jar') return `exec java -jar ${fileWord(main)}`
    const className = main
      .replace(/^src\/main\/java\//, '')
      .replace(/\.java$/, '')
      .replaceAll('/', '.')
    return (
      `if [ -d /opt/build/classes ]; then exec java -cp '/opt/build/classes:/opt/build/lib/*' ${quotedShell(className)}; ` +
      `else exec java ${fileWord(main)}; fi`
    )
  },
  env: { JAVA_TOOL_OPTIONS: '-XX:MaxRAMPercentage=75 -Djava.io.tmpdir=/tmp' },
}

export const go: Runtime = {
  language: 'go',
  title: 'Go',
  extensions: ['go'],
  aliases: ['go', 'golang'],
  versions: ['1.25', '1.24'],
  recommended: '1.24',
  latest: '1.25',
  dependencyFiles: ['go.mod'],
  dependenciesRequired: true,
  defaultPort: 80,
  image: version => `berth/go:${version}`,
  buildImage: version => `berth/go:${version}`,
  official: version => `golang:${version}`,
  install: ({ files, main }) =>
    files.includes('go.mod')
      ? `CGO_ENABLED=0 GOPATH=/tmp/go GOCACHE=/tmp/go-cache go build -o .berth/app ${quotedShell(`./${posix.dirname(main ?? 'main.go')}`)}`
      : null,
  toolFolders: ['/tmp/go-cache', '/tmp/go/pkg/mod'],
  dependencies,
  start: () => 'exec /opt/build/app',
  env: {},
}

/** Folder of cargo in builds. */
export const cargoHome = '/tmp/.cargo'

const builtPrograms = 'find .target/release -maxdepth 1 -type f -perm -u+x'

export const rust: Runtime = {
  language: 'rust',
  title: 'Rust',
  extensions: ['rs'],
  aliases: ['rust'],
  versions: ['1'],
  recommended: '1',
  latest: '1',
  dependencyFiles: ['Cargo.toml'],
  dependenciesRequired: true,
  defaultPort: 80,
  image: version => `rust:${version}-slim-bookworm`,
  buildImage: version => `rust:${version}-bookworm`,
  official: () => null,
  // Cargo never removes a program that the sources no longer have, and puts back immediately what is up to date.
  install: ({ files }) =>
    files.includes('Cargo.toml')
      ? `mkdir -p .target/release && ${builtPrograms} -delete && ` +
        `CARGO_HOME=${cargoHome} CARGO_TARGET_DIR=/app/.target cargo build --release && mkdir -p .berth && ` +
        `cp "$(${builtPrograms} | sort | head -n 1)" .berth/app`
      : null,
  // Build scripts run from there, which /tmp does not permit.
  toolFolders: [`${cargoHome}/registry`, `${cargoHome}/git`, '/app/.target'],
  dependencies,
  start: () => 'exec /opt/build/app',
  env: {},
}

export const dotnet: Runtime = {
  language: 'dotnet',
  title: '.NET',
  extensions: ['cs'],
  aliases: ['dotnet', 'csharp', 'c#'],
  versions: ['9.0', '8.0'],
  recommended: '8.0',
  latest: '9.0',
  dependencyFiles: ['*.csproj'],
  dependenciesRequired: true,
  defaultPort: 80,
  image: version => `mcr.microsoft.com/dotnet/aspnet:${version}`,
  buildImage: version => `mcr.microsoft.com/dotnet/sdk:${version}`,
  official: () => null,
  install: ({ files }) =>
    files.some(file => file.endsWith('.csproj'))
      ? 'DOTNET_CLI_TELEMETRY_OPTOUT=1 dotnet publish -c Release -p:AssemblyName=app -o .berth && rm -rf bin obj'
      : null,
  toolFolders: ['/tmp/.nuget/packages'],
  dependencies,
  start: () => 'export ASPNETCORE_HTTP_PORTS=$PORT; exec dotnet /opt/build/app.dll',
  env: { DOTNET_CLI_TELEMETRY_OPTOUT: '1', DOTNET_EnableDiagnostics: '0' },
}
