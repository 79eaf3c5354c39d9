import { posix } from 'node:path'
import { fileWord, type Runtime } from './runtime.ts'

/** Names that a static site never serves, in addition to everything that starts with a dot. */
const alwaysHidden = ['berth.app', 'berth.config']

/**
 * The web server's configuration, written to /tmp when the container starts because the port is known only then (`@PORT@`). The server
 * runs without root and writes only temporary files.
 */
function siteConfig(main: string, hidden: readonly string[] = []): string {
  const folder = posix.dirname(main)
  const root = folder === '.' ? '/app' : `/app/${folder}`
  const index = posix.extname(main) === '.html' ? posix.basename(main) : 'index.html'
  const names = [...new Set([...alwaysHidden, ...hidden])].map(
    name => `  location = ${nginxText(`/${name}`)} { return 404; }`,
  )
  return `daemon off; worker_processes 1; pid /tmp/nginx.pid; error_log stderr warn;
events { worker_connections 512; }
http {
  include /etc/nginx/mime.types; default_type application/octet-stream;
  access_log off; server_tokens off; sendfile on; tcp_nopush on; keepalive_timeout 75s; port_in_redirect off; absolute_redirect off;
  gzip on; gzip_types text/css text/plain application/javascript application/json image/svg+xml;
  client_body_temp_path /tmp/body; proxy_temp_path /tmp/proxy; fastcgi_temp_path /tmp/fastcgi; uwsgi_temp_path /tmp/uwsgi; scgi_temp_path /tmp/scgi;
  server {
  listen @PORT@; root ${nginxText(root)}; index ${nginxText(index)} index.html; charset utf-8; charset_types text/css text/plain text/xml text/markdown application/javascript application/json image/svg+xml; etag on;
${names.join('\n')}
  location ^~ /.well-known/ { try_files $uri =404; }
  location ~ /\\. { return 404; }
  location / { try_files $uri $uri/ =404; }
  error_page 404 /404.html;
  location = /404.html { internal; }
  }
}
`
}

function nginxText(text: string): string {
  return `"${text.replaceAll('\\', '\\\\').replaceAll('"', '\\"').replaceAll('$', '')}"`
}

export const staticSite: Runtime = {
  language: 'static',
  title: 'Static site',
  extensions: ['html', 'css'],
  aliases: ['static', 'html'],
  versions: ['1'],
  recommended: '1',
  latest: '1',
  dependencyFiles: [],
  dependenciesRequired: false,
  defaultPort: 80,
  image: version => `berth/static:${version}`,
  buildImage: version => `berth/static:${version}`,
  official: version => `nginx:${version}`,
  install: () => null,
  dependencies: null,
  start: (main, hidden) =>
    `printf %s ${fileWord(siteConfig(main, hidden))} | sed "s/@PORT@/\${PORT:-80}/" > /tmp/nginx.conf && exec nginx -e stderr -c /tmp/nginx.conf`,
  env: {},
}
