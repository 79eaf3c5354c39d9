# One image for the four processes of Berth; docker-compose.yml names the process of each container.
# Node 24 is the current long-term release.
FROM node:24.19.0-bookworm-slim AS build
WORKDIR /berth
COPY package.json package-lock.json ./
RUN npm ci --no-audit --no-fund
COPY . .
RUN npm run build && npm prune --omit=dev --no-audit --no-fund

FROM node:24.19.0-bookworm-slim
# nginx with its Lua module for the proxy; mount, e2fsprogs, iptables, iproute2, mmdebstrap and git for the host (quotas, firewall, images
# made where no registry answers, repositories).
RUN apt-get update \
 && apt-get install -y --no-install-recommends ca-certificates nginx-light libnginx-mod-http-lua mount e2fsprogs iptables iproute2 util-linux mmdebstrap git \
 && rm -rf /var/lib/apt/lists/*
# Users of the API, of the worker, and of the set-up; far from the applications' users, which begin at 10001.
RUN for user in api:810 worker:811 setup:812 analytics:813; do \
      groupadd --gid "${user#*:}" "berth-${user%:*}" \
      && useradd --uid "${user#*:}" --gid "${user#*:}" --no-create-home --home-dir /tmp --shell /usr/sbin/nologin "berth-${user%:*}"; \
    done
WORKDIR /berth
ENV NODE_ENV=production NODE_OPTIONS=--enable-source-maps UV_THREADPOOL_SIZE=24 BERTH_DATA=/var/lib/berth
COPY --from=build /berth/package.json ./
COPY --from=build /berth/node_modules node_modules
COPY --from=build /berth/dist dist
CMD ["node", "dist/workers/api.js"]
