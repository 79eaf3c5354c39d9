/** Settings of an engine that Berth starts itself; a person's own engine is never reconfigured. */
export interface DaemonOptions {
  /** Where the engine listens, as in DOCKER_HOST: `unix:///path`. Never a TCP address. */
  socket: `unix://${string}`
  /** Folder for the engine's data and state; the engine's own defaults without it. A second engine needs one. */
  folder?: string
  /** Whether root inside a container is a user without rights outside. Images are then kept apart (docs/decisions). */
  userNamespaces?: boolean
}

/** Arguments of `dockerd`, after CIS 2.2 to 2.16. Containers live on when the engine ends. */
export function daemonArguments({ socket, folder, userNamespaces = false }: DaemonOptions): string[] {
  return [
    `--host=${socket}`,
    ...(folder ? [`--data-root=${folder}/data`, `--exec-root=${folder}/exec`, `--pidfile=${folder}/dockerd.pid`] : []),
    '--live-restore',
    '--no-new-privileges',
    '--userland-proxy=false',
    '--icc=false',
    '--default-ulimit=nofile=1024:4096',
    '--default-ulimit=core=0:0',
    '--log-driver=json-file',
    '--log-opt=max-size=5m',
    '--log-opt=max-file=2',
    '--log-level=warn',
    ...(userNamespaces ? ['--userns-remap=default'] : []),
  ]
}
