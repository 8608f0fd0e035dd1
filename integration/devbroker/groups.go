package devbroker

import (
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/millrace/millrace/integration/devbroker/coordinator"
)

// listGroups adds the streams groups to kfake's list, and takes out the classic groups kfake shows where it keeps their offsets.
func (b *Broker) listGroups(node int32, r kmsg.Request, x *exchange) (kmsg.Response, error, bool) {
	req := r.(*kmsg.ListGroupsRequest)
	if x == nil {
		return nil, nil, false
	}
	b.mu.Lock()
	if b.mu.coord.Expire(time.Now()) {
		b.changedLocked()
	}
	ours := b.mu.coord.List(node, req.StatesFilter, req.TypesFilter)
	all := b.mu.coord.Groups()
	b.mu.Unlock()
	x.amend = func(r kmsg.Response) {
		resp := r.(*kmsg.ListGroupsResponse)
		resp.Groups = slices.DeleteFunc(resp.Groups, func(g kmsg.ListGroupsResponseGroup) bool { return slices.Contains(all, g.Group) })
		for _, l := range ours {
			g := kmsg.NewListGroupsResponseGroup()
			g.Group, g.ProtocolType, g.GroupState, g.GroupType = l.Group, "streams", l.State, "streams"
			resp.Groups = append(resp.Groups, g)
		}
	}
	return nil, nil, false
}

// describeGroups makes streams groups look dead to the classic description (§21).
func (b *Broker) describeGroups(_ int32, r kmsg.Request, x *exchange) (kmsg.Response, error, bool) {
	req := r.(*kmsg.DescribeGroupsRequest)
	if x == nil {
		return nil, nil, false
	}
	b.mu.Lock()
	all := b.mu.coord.Groups()
	b.mu.Unlock()
	version := req.Version
	x.amend = func(r kmsg.Response) {
		resp := r.(*kmsg.DescribeGroupsResponse)
		for i := range resp.Groups {
			g := &resp.Groups[i]
			if g.ErrorCode == kerr.NotCoordinator.Code || !slices.Contains(all, g.Group) {
				continue
			}
			dead := kmsg.NewDescribeGroupsResponseGroup()
			dead.Group, dead.State = g.Group, "Dead"
			if version >= 6 {
				message := "Group " + g.Group + " is not a classic group."
				dead.ErrorCode, dead.ErrorMessage = kerr.GroupIDNotFound.Code, &message
			}
			*g = dead
		}
	}
	return nil, nil, false
}

// deleteGroups deletes streams groups; kfake deletes their offsets, and the groups that are its own (§23).
func (b *Broker) deleteGroups(node int32, r kmsg.Request, x *exchange) (kmsg.Response, error, bool) {
	req := r.(*kmsg.DeleteGroupsRequest)
	var answered []kmsg.DeleteGroupsResponseGroup
	var rest []string
	for _, id := range req.Groups {
		if b.cluster.CoordinatorFor(id) != node {
			rest = append(rest, id)
			continue
		}
		offsets := b.cluster.GroupInfo(id) != nil
		b.mu.Lock()
		b.mu.coord.Expire(time.Now())
		var code int16
		ours := b.mu.coord.Has(id)
		if ours {
			code = b.mu.coord.Delete(id)
			b.changedLocked()
		}
		b.mu.Unlock()
		if !ours || code == 0 && offsets {
			rest = append(rest, id)
			continue
		}
		g := kmsg.NewDeleteGroupsResponseGroup()
		g.Group, g.ErrorCode = id, code
		answered = append(answered, g)
	}
	switch {
	case len(answered) == 0:
		return nil, nil, false
	case len(rest) == 0:
		resp := req.ResponseKind().(*kmsg.DeleteGroupsResponse)
		resp.Groups = answered
		return resp, nil, true
	}
	req.Groups = rest
	if x != nil {
		x.amend = func(r kmsg.Response) {
			resp := r.(*kmsg.DeleteGroupsResponse)
			resp.Groups = append(resp.Groups, answered...)
		}
	}
	return nil, nil, false
}

// joinGroup keeps classic members out of a streams group that has members; an empty one becomes a classic group, offsets and all (§5, C-58).
func (b *Broker) joinGroup(node int32, r kmsg.Request, _ *exchange) (kmsg.Response, error, bool) {
	req := r.(*kmsg.JoinGroupRequest)
	if b.cluster.CoordinatorFor(req.Group) != node {
		return nil, nil, false
	}
	info := b.cluster.GroupInfo(req.Group)
	b.mu.Lock()
	defer b.mu.Unlock()
	b.mu.coord.Expire(time.Now())
	if info == nil || len(info.Members) == 0 {
		delete(b.mu.claimed, req.Group)
	}
	if !b.mu.coord.Has(req.Group) {
		return nil, nil, false
	}
	if !b.mu.coord.Empty(req.Group) {
		resp := req.ResponseKind().(*kmsg.JoinGroupResponse)
		resp.ErrorCode = kerr.InconsistentGroupProtocol.Code
		return resp, nil, true
	}
	b.mu.coord.Remove(req.Group)
	b.changedLocked()
	return nil, nil, false
}

func (b *Broker) consumerHeartbeat(node int32, r kmsg.Request, _ *exchange) (kmsg.Response, error, bool) {
	req := r.(*kmsg.ConsumerGroupHeartbeatRequest)
	if !b.claim(node, req.Group) {
		return nil, nil, false
	}
	resp := req.ResponseKind().(*kmsg.ConsumerGroupHeartbeatResponse)
	message := "Group " + req.Group + " is not a consumer group."
	resp.ErrorCode, resp.ErrorMessage = kerr.GroupIDNotFound.Code, &message
	return resp, nil, true
}

func (b *Broker) shareHeartbeat(node int32, r kmsg.Request, _ *exchange) (kmsg.Response, error, bool) {
	req := r.(*kmsg.ShareGroupHeartbeatRequest)
	if !b.claim(node, req.GroupID) {
		return nil, nil, false
	}
	resp := req.ResponseKind().(*kmsg.ShareGroupHeartbeatResponse)
	message := "Group " + req.GroupID + " is not a share group."
	resp.ErrorCode, resp.ErrorMessage = kerr.GroupIDNotFound.Code, &message
	return resp, nil, true
}

// claim notes that an id is used by a consumer or share group, whose empty remains kfake cannot tell from those of a classic one. It reports whether a
// streams group has the id, empty or not (§5).
func (b *Broker) claim(node int32, group string) (streams bool) {
	if b.cluster.CoordinatorFor(group) != node {
		return false
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.mu.coord.Has(group) {
		return true
	}
	b.mu.claimed[group] = true
	return false
}

// alterConfigs keeps the settings of streams groups, which kfake does not know (§22).
func (b *Broker) alterConfigs(_ int32, r kmsg.Request, x *exchange) (kmsg.Response, error, bool) {
	req := r.(*kmsg.IncrementalAlterConfigsRequest)
	var answered []kmsg.IncrementalAlterConfigsResponseResource
	var rest []kmsg.IncrementalAlterConfigsRequestResource
	for _, res := range req.Resources {
		ours := slices.ContainsFunc(res.Configs, func(c kmsg.IncrementalAlterConfigsRequestResourceConfig) bool {
			return coordinator.IsGroupConfig(c.Name)
		})
		if res.ResourceType != kmsg.ConfigResourceTypeGroupConfig || !ours || b.cfg.noStreams {
			rest = append(rest, res)
			continue
		}
		a := kmsg.NewIncrementalAlterConfigsResponseResource()
		a.ResourceType, a.ResourceName = res.ResourceType, res.ResourceName
		changes := map[string]*string{}
		valid := true
		for _, c := range res.Configs {
			switch c.Op {
			case kmsg.IncrementalAlterConfigOpSet:
				valid = valid && c.Value != nil
				changes[c.Name] = c.Value
			case kmsg.IncrementalAlterConfigOpDelete:
				changes[c.Name] = nil
			default:
				valid = false
			}
		}
		b.mu.Lock()
		if !valid {
			a.ErrorCode = kerr.InvalidConfig.Code
		} else if err := b.mu.coord.AlterGroupConfigs(res.ResourceName, changes, req.ValidateOnly); err != nil {
			message := err.Error()
			a.ErrorCode, a.ErrorMessage = kerr.InvalidConfig.Code, &message
		}
		b.mu.Unlock()
		answered = append(answered, a)
	}
	switch {
	case len(answered) == 0:
		return nil, nil, false
	case len(rest) == 0:
		resp := req.ResponseKind().(*kmsg.IncrementalAlterConfigsResponse)
		resp.Resources = answered
		return resp, nil, true
	}
	req.Resources = rest
	if x != nil {
		x.amend = func(r kmsg.Response) {
			resp := r.(*kmsg.IncrementalAlterConfigsResponse)
			resp.Resources = append(resp.Resources, answered...)
		}
	}
	return nil, nil, false
}

// describeConfigs adds the settings of streams groups to those of group resources.
func (b *Broker) describeConfigs(_ int32, r kmsg.Request, x *exchange) (kmsg.Response, error, bool) {
	req := r.(*kmsg.DescribeConfigsRequest)
	if x == nil || b.cfg.noStreams {
		return nil, nil, false
	}
	add := map[string][]kmsg.DescribeConfigsResponseResourceConfig{}
	for _, res := range req.Resources {
		if res.ResourceType != kmsg.ConfigResourceTypeGroupConfig {
			continue
		}
		b.mu.Lock()
		configs := b.mu.coord.GroupConfigs(res.ResourceName)
		b.mu.Unlock()
		for _, c := range configs {
			if res.ConfigNames != nil && !slices.Contains(res.ConfigNames, c.Name) {
				continue
			}
			rc := kmsg.NewDescribeConfigsResponseResourceConfig()
			rc.Name, rc.Value = c.Name, &c.Value
			rc.Source = kmsg.ConfigSourceDefaultConfig
			if c.Own {
				rc.Source = kmsg.ConfigSourceGroupConfig
			}
			rc.IsDefault = !c.Own
			add[res.ResourceName] = append(add[res.ResourceName], rc)
		}
	}
	if len(add) > 0 {
		x.amend = func(r kmsg.Response) {
			resp := r.(*kmsg.DescribeConfigsResponse)
			for i := range resp.Resources {
				res := &resp.Resources[i]
				if res.ResourceType == kmsg.ConfigResourceTypeGroupConfig && res.ErrorCode == 0 {
					res.Configs = append(res.Configs, add[res.ResourceName]...)
				}
			}
		}
	}
	return nil, nil, false
}
