/* SPDX-License-Identifier: MIT */
/* status.c - STATUS and LINKINFO as JSON. */
#include "status.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "clock.h"
#include "found.h"
#include "json.h"
#include "quote.h"
#include "target_link.h"
#include "version.h"

static uint64_t
seconds(uint64_t since)
{
	return since == 0 ? 0 : (clock_now() - since) / (1000 * CLOCK_MS);
}

static const char *
agent_path(const struct target_link *link)
{
	const char *path = link->place.facts.agent;

	return path[0] != '\0' ? path : transport_baked(&link->place);
}

static const char *
source(const struct target_link *link)
{
	if ((link->place.facts.flags & TRANSPORT_KEEP) != 0) {
		return "embedded";
	}
	return link->injected ? "injected" : "image";
}

/* Without the one that asks. */
static unsigned
others(const struct hub *hub)
{
	return hub_busy(hub) > 0 ? hub_busy(hub) - 1 : 0;
}

/* Whether results of this link are from an agent that proves nothing. */
static const char *
trust(const struct target_link *link)
{
	return link->new_agent ? "new-agent" : "same-agent";
}

static void
link_json(struct json *json, const struct target_link *link)
{
	const struct carrier *c = &link->carrier;
	struct session_figures figures;
	char name[TARGET_TEXT_MAX];
	bool up = link->state == TARGET_LINK_UP;

	target_format(&link->target, name);
	session_figures(link->session, &figures);
	json_string(json, "target", name);
	json_string(json, "state", target_link_words(link->state));
	json_string(json, "id", link->place.facts.id);
	json_string(json, "program", link->place.facts.program);
	json_string(json, "trust", trust(link));
	json_u64(json, "requests", session_count(link->session));
	json_u64(json, "requests_total", link->requests);
	json_u64(json, "sent", figures.sent);
	json_u64(json, "received", figures.received);
	json_i64(json, "pid", c->child.exited ? -1 : (int64_t)c->child.pid);
	json_u64(json, "up_s", up ? seconds(c->up_at) : 0);
	json_u64(json, "idle_s", seconds(link->idle_since));
	json_u64(json, "link", link->number);
	json_u64(json, "relinks", link->relink.healed);
	json_u64(json, "lost_s", link->state == TARGET_LINK_RELINKING ?
	    seconds(link->relink.since) : 0);
	json_u64(json, "rtt_us", up && c->link != NULL ? link_rtt(c->link) :
	    0);
	json_string(json, "agent", agent_path(link));
	json_string(json, "agent_source", source(link));
}

static void
status_json(struct json *json, const struct hub *hub)
{
	const struct list *l;
	const char *name;
	uint64_t left;
	unsigned i;

	json_object(json, NULL);
	json_string(json, "version", SANDMUX_VERSION);
	json_u64(json, "pid", (uint64_t)getpid());
	json_string(json, "directory", hub->options->directory);
	json_u64(json, "up_s", seconds(hub->started));
	json_u64(json, "clients", hub->peer_count);
	json_u64(json, "requests", others(hub));
	json_u64(json, "requests_total", hub->requests);
	json_u64(json, "requests_lost", hub->lost);
	json_bool(json, "stopping", hub->stopping);
	json_array(json, "links");
	for (l = hub->links.next; l != &hub->links; l = l->next) {
		json_object(json, NULL);
		link_json(json, LIST_OF(l, const struct target_link, link));
		json_end_object(json);
	}
	json_end_array(json);
	json_array(json, "left_behind");
	for (i = 0; (name = found_target(i, &left)) != NULL; i++) {
		json_object(json, NULL);
		json_string(json, "target", name);
		json_u64(json, "ends_in_s", left);
		json_end_object(json);
	}
	json_end_array(json);
	json_end_object(json);
}

static char *
finish(struct json *json, size_t *len)
{
	const char *text = json_text(json);
	char *copy = NULL;

	if (text != NULL) {
		*len = strlen(text);
		copy = malloc(*len + 2);
	}
	if (copy != NULL) {
		memcpy(copy, text, *len);
		copy[(*len)++] = '\n';
		copy[*len] = '\0';
	}
	json_free(json);
	return copy;
}

static size_t
link_text(const struct target_link *link, char *out, size_t cap, size_t used)
{
	const struct carrier *c = &link->carrier;
	char name[TARGET_TEXT_MAX];

	target_format(&link->target, name);
	used = quote_add(out, cap, used, "%s: %s, %u requests (%llu in all)", name,
	    target_link_words(link->state), session_count(link->session),
	    (unsigned long long)link->requests);
	if (link->state == TARGET_LINK_UP) {
		used = quote_add(out, cap, used, ", up for %llu s, process %ld, "
		    "%s agent%s", (unsigned long long)seconds(c->up_at),
		    (long)c->child.pid, source(link), link->new_agent ?
		    ", new-agent" : "");
	} else if (link->state == TARGET_LINK_RELINKING) {
		used = quote_add(out, cap, used, ", for %llu s, %u attempts",
		    (unsigned long long)seconds(link->relink.since),
		    link->relink.attempts);
	}
	if (link->relink.healed > 0) {
		used = quote_add(out, cap, used, ", linked again %llu times",
		    (unsigned long long)link->relink.healed);
	}
	return quote_add(out, cap, used, "\n");
}

static char *
status_plain(const struct hub *hub, size_t *len)
{
	size_t cap = 1024 + (size_t)(hub->link_count + HUB_LINKS) * 512, used;
	char *out = malloc(cap);
	const struct list *l;
	const char *name;
	uint64_t left;
	unsigned i;

	if (out == NULL) {
		return NULL;
	}
	used = quote_add(out, cap, 0, "sandmux %s, controller %ld in %.500s, up "
	    "for %llu s\n%u clients, %u requests (%llu in all)\n",
	    SANDMUX_VERSION, (long)getpid(), hub->options->directory,
	    (unsigned long long)seconds(hub->started), hub->peer_count,
	    others(hub), (unsigned long long)hub->requests);
	for (l = hub->links.next; l != &hub->links; l = l->next) {
		used = link_text(LIST_OF(l, const struct target_link, link),
		    out, cap, used);
	}
	for (i = 0; (name = found_target(i, &left)) != NULL; i++) {
		used = quote_add(out, cap, used, "%s: left by a controller "
		    "that was killed, its jobs end within %llu s\n", name,
		    (unsigned long long)left);
	}
	*len = used;
	return out;
}

char *
status_text(const struct hub *hub, bool json, size_t *len)
{
	struct json text = { 0 };

	if (!json) {
		return status_plain(hub, len);
	}
	status_json(&text, hub);
	return finish(&text, len);
}

char *
status_link(const struct target_link *link, size_t *len)
{
	const struct transport_facts *facts = &link->place.facts;
	const struct carrier *c = &link->carrier;
	const char *user = transport_default_user(&link->place);
	struct json json = { 0 };
	char own[16];
	uint8_t noise[2 * LINK_QUOTE];
	size_t n = c->head_len;

	snprintf(own, sizeof(own), "%u", (unsigned)c->ready.uid);
	memcpy(noise, c->noise_head, n);
	memcpy(noise + n, c->noise_tail, c->noise_tail_len);
	json_object(&json, NULL);
	link_json(&json, link);
	json_string(&json, "transport", link->transport->scheme);
	json_string(&json, "controller", SANDMUX_VERSION);
	json_u64(&json, "version", c->ready.version);
	json_u64(&json, "uid", c->ready.uid);
	json_bool(&json, "switches", c->ready.switches != 0);
	json_string(&json, "default_user", user != NULL ? user : own);
	json_bool(&json, "pty",
	    (link->transport->traits & TRANSPORT_PTY) != 0);
	json_string(&json, "terminals", c->ready.terminals ? "the agent opens "
	    "them" : (link->transport->traits & TRANSPORT_PTY) != 0 ?
	    "by hand-off, their bytes are not sealed" : "none");
	json_bool(&json, "unlinked", c->ready.unlinked == WIRE_UNLINK_DONE ||
	    link->removing || link->removed);
	json_u64(&json, "start_ms", (c->up_at - link->begun) / CLOCK_MS);
	json_string(&json, "image_user", facts->user);
	json_string(&json, "image_workdir", facts->workdir);
	json_string(&json, "warning", facts->warning);
	json_string(&json, "image_agent", link->failed);
	json_u64(&json, "noise_bytes", c->noise);
	json_bytes(&json, "noise", noise, n + c->noise_tail_len);
	json_bytes(&json, "stderr", c->tail, c->tail_len);
	json_end_object(&json);
	return finish(&json, len);
}
