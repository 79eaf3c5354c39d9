import type { MailTemplate } from './template.ts'

/** A member of a workspace may no longer set up deploys. `apps` are names of applications. */
export type DeploysWithdrawn = { apps: string }

export const deploysWithdrawn: MailTemplate<DeploysWithdrawn> = {
  'pt-BR': ({ apps }) => ({
    subject: 'Deploys por push precisam ser configurados de novo',
    text: `Alguém que podia configurar os deploys destas aplicações não pode mais: ${apps}.

O que essa pessoa conhecia ou configurou não vale mais: o repositório que ela vinculou foi desvinculado, e o webhook tem um novo endereço e, se tinha um segredo, um novo segredo. Para continuar, vincule o repositório você mesmo, ou configure o webhook de novo e registre o endereço no provedor git.`,
  }),
  'en-US': ({ apps }) => ({
    subject: 'Deploys by push must be set up again',
    text: `A person who could set up deploys for these applications has lost access: ${apps}.

Everything that this person knew or set up is now invalid: repositories that they linked are unlinked, and webhooks have a new address and, if they had a secret, a new secret. To continue, link the repository yourself, or set the webhook again and register its address at the git provider.`,
  }),
  'es-ES': ({ apps }) => ({
    subject: 'Hay que configurar de nuevo los despliegues por push',
    text: `Alguien que podía configurar los despliegues de estas aplicaciones ya no puede: ${apps}.

Lo que conocía o había configurado ya no vale: el repositorio que vinculó se ha desvinculado, y el webhook tiene una dirección nueva y, si tenía un secreto, un secreto nuevo. Para continuar, vincula tú el repositorio, o configura de nuevo el webhook y registra su dirección en el proveedor de git.`,
  }),
  'zh-CN': ({ apps }) => ({
    subject: '需要重新设置推送部署',
    text: `曾可设置以下应用部署的人现已失去该权限：${apps}。

其所知或所设置的内容已失效：其关联的仓库已取消关联，webhook 已换用新地址；如曾设有密钥，也已更换。若要继续，请自行关联仓库，或重新设置 webhook 并在 git 提供商处登记其地址。`,
  }),
  'ja-JP': ({ apps }) => ({
    subject: 'プッシュによるデプロイを設定し直してください',
    text: `次のアプリケーションのデプロイを設定できた人が、その権限を失いました: ${apps}。

その人が知っていたもの、設定したものは無効になりました。リンクされたリポジトリは解除され、webhook のアドレスは新しくなり、シークレットがあった場合はそれも新しくなりました。続けるには、ご自身でリポジトリをリンクするか、webhook を設定し直して、そのアドレスを git プロバイダーに登録してください。`,
  }),
  'fr-FR': ({ apps }) => ({
    subject: 'Les déploiements par push sont à configurer de nouveau',
    text: `Quelqu'un qui pouvait configurer les déploiements de ces applications ne le peut plus : ${apps}.

Ce que cette personne connaissait ou avait configuré ne vaut plus : le dépôt qu'elle avait lié ne l'est plus, et le webhook a une nouvelle adresse et, s'il avait un secret, un nouveau secret. Pour continuer, liez le dépôt vous-même, ou configurez de nouveau le webhook et enregistrez son adresse chez le fournisseur git.`,
  }),
  'de-DE': ({ apps }) => ({
    subject: 'Deploys durch Pushes müssen neu eingerichtet werden',
    text: `Jemand, der die Deploys dieser Anwendungen einrichten konnte, kann es nicht mehr: ${apps}.

Was diese Person kannte oder eingerichtet hatte, gilt nicht mehr: Ein von ihr verknüpftes Repository ist nicht mehr verknüpft, und ein Webhook hat eine neue Adresse und, falls er ein Geheimnis hatte, ein neues Geheimnis. Um fortzufahren, verknüpfen Sie das Repository selbst, oder richten Sie den Webhook neu ein und tragen Sie seine Adresse beim Git-Anbieter ein.`,
  }),
  'it-IT': ({ apps }) => ({
    subject: 'I deploy tramite push vanno configurati di nuovo',
    text: `Qualcuno che poteva configurare i deploy di queste applicazioni non può più farlo: ${apps}.

Ciò che conosceva o aveva configurato non vale più: il repository che aveva collegato è stato scollegato, e il webhook ha un nuovo indirizzo e, se aveva un segreto, un nuovo segreto. Per continuare, collega tu il repository, oppure configura di nuovo il webhook e registra il suo indirizzo presso il fornitore git.`,
  }),
}
